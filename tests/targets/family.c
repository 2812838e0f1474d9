/* Ways to get threads and processes after the word to go on. Argument: which way; then CPU seconds for each. */
#include "target.h"

static NOINLINE void in_parent(double cpu_seconds) { burn(cpu_seconds); }
static NOINLINE void in_child(double cpu_seconds) { burn(cpu_seconds); }
static double share;

static NOINLINE void *in_grandthread(void *unused)
{
	burn(share);
	return unused;
}

static NOINLINE void *in_thread(void *unused)
{
	pthread_t thread;
	/* A worker creates the threads, not the main thread. */
	for (int i = 0; i < 4; i++) {
		pthread_create(&thread, NULL, in_grandthread, NULL);
		pthread_join(thread, NULL);
	}
	return unused;
}

static NOINLINE void *after_main(void *unused)
{
	usleep(50000);
	burn(share);
	tell("cpu", PROCESS_SECONDS());
	exit(0);
	return unused;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *way = argv[1];
	pthread_t thread;
	share = atof(argv[2]);

	if (strcmp(way, "child") == 0) { /* what `exec` runs */
		in_child(share);
		return 0;
	}
	await_go();
	double begin = PROCESS_SECONDS();
	if (strcmp(way, "thread") == 0) {
		pthread_create(&thread, NULL, in_thread, NULL);
		pthread_join(thread, NULL);
	} else if (strcmp(way, "headless") == 0) {
		pthread_create(&thread, NULL, after_main, NULL);
		pthread_create(&thread, NULL, in_grandthread, NULL);
		pthread_exit(NULL);
	} else if (strcmp(way, "again") == 0) { /* a second image of the same process */
		in_parent(share);
		tell("before", PROCESS_SECONDS());
		execl("/proc/self/exe", "family", "child", argv[2], NULL);
		return 3;
	} else { /* fork, exec */
		pid_t child = fork();
		if (child == 0) {
			if (strcmp(way, "exec") == 0) {
				execl(argc > 3 ? argv[3] : "/proc/self/exe", "family", "child", argv[2], NULL);
				_exit(3);
			}
			in_child(share);
			_exit(0);
		}
		in_parent(share);
		int status;
		waitpid(child, &status, 0);
		tell("pid", getpid());
		tell("child", child);
	}
	tell("cpu", PROCESS_SECONDS() - begin + children_seconds());
	return 0;
}
