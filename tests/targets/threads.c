/* Busy threads, which exist before the word to go on. Arguments: how many, seconds of the clock, "alike",
 * "unlike" (some end early) or "sleepy" (they wait for timers again and again). */
#include "target.h"

static pthread_barrier_t start;
static double until_wall, length;
static int unlike, sleepy;

struct worker {
	pthread_t thread;
	int index, tid;
	double used;
};

static NOINLINE void *work(void *argument)
{
	struct worker *worker = argument;
	worker->tid = syscall(SYS_gettid);
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&start);
	double begin = THREAD_SECONDS();
	double end = until_wall - (unlike ? worker->index % 8 / 8.0 * length : 0);
	unsigned seed = worker->index + 1;
	while (WALL_SECONDS() < end) {
		LOOP(rand_r(&seed) % 400000);
		if (sleepy)
			usleep(rand_r(&seed) % (worker->index % 8 * 600 + 1));
	}
	worker->used = THREAD_SECONDS() - begin;
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int count = atoi(argv[1]);
	length = atof(argv[2]);
	unlike = strcmp(argv[3], "unlike") == 0;
	sleepy = strcmp(argv[3], "sleepy") == 0;
	struct worker *workers = calloc(count, sizeof *workers);
	pthread_barrier_init(&start, NULL, count + 1);
	for (int i = 0; i < count; i++) {
		workers[i].index = i;
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	pthread_barrier_wait(&start);
	await_go();
	double begin = PROCESS_SECONDS(), begin_wall = WALL_SECONDS();
	until_wall = begin_wall + length;
	pthread_barrier_wait(&start);
	for (int i = 0; i < count; i++) {
		char name[32];
		pthread_join(workers[i].thread, NULL);
		snprintf(name, sizeof name, "tid.%d", workers[i].tid);
		tell(name, workers[i].used);
	}
	tell("cpu", PROCESS_SECONDS() - begin);
	tell("wall", WALL_SECONDS() - begin_wall);
	return 0;
}
