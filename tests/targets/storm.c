/* A thread every millisecond or so, each created by the newest one. Argument: how many. The first thread waits. */
#include "target.h"

static long left;
static pthread_attr_t detached;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;

static NOINLINE void *link_of_chain(void *unused)
{
	pthread_t next;
	burn(0.001);
	pthread_mutex_lock(&lock);
	long more = --left;
	if (!more)
		pthread_cond_signal(&ended);
	pthread_mutex_unlock(&lock);
	if (more && pthread_create(&next, &detached, link_of_chain, unused))
		abort();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t first;
	left = argc > 1 ? atol(argv[1]) : 1000;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	await_go();
	double begin = PROCESS_SECONDS(), begin_wall = WALL_SECONDS();
	pthread_create(&first, &detached, link_of_chain, NULL);
	pthread_mutex_lock(&lock);
	while (left)
		pthread_cond_wait(&ended, &lock);
	pthread_mutex_unlock(&lock);
	tell("cpu", PROCESS_SECONDS() - begin);
	tell("wall", WALL_SECONDS() - begin_wall);
	return 0;
}
