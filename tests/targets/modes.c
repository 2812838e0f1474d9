/* Time in one place. Argument: where; then CPU seconds. */
#include <fcntl.h>
#include "target.h"

static NOINLINE void in_user_mode(double cpu_seconds) { burn(cpu_seconds); }

static NOINLINE void reading_zeros(double cpu_seconds)
{
	static char buffer[1 << 20];
	int zeros = open("/dev/zero", O_RDONLY);
	double end = THREAD_SECONDS() + cpu_seconds;
	while (THREAD_SECONDS() < end)
		for (int i = 0; i < 64; i++)
			if (read(zeros, buffer, sizeof buffer) != sizeof buffer)
				abort();
	close(zeros);
}

static NOINLINE void asking_for_ids(double cpu_seconds)
{
	double end = THREAD_SECONDS() + cpu_seconds;
	do
		for (int i = 0; i < 1000; i++)
			syscall(SYS_getppid);
	while (THREAD_SECONDS() < end);
}

static double used;
static int other_tid;

static NOINLINE void *other(void *unused)
{
	other_tid = syscall(SYS_gettid);
	double begin = THREAD_SECONDS();
	burn(used);
	tell("other", THREAD_SECONDS() - begin);
	return unused;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	const char *where = argv[1];
	used = atof(argv[2]);
	if (strcmp(where, "two") == 0) { /* the tid is needed before the word to go on: the main thread's is the PID */
		pthread_t thread;
		await_go();
		double begin = THREAD_SECONDS();
		pthread_create(&thread, NULL, other, NULL);
		in_user_mode(used);
		tell("main", THREAD_SECONDS() - begin);
		pthread_join(thread, NULL);
		return 0;
	}
	await_go();
	double begin = PROCESS_SECONDS();
	if (strcmp(where, "zeros") == 0)
		reading_zeros(used);
	else if (strcmp(where, "ids") == 0)
		asking_for_ids(used);
	else
		in_user_mode(used);
	tell("cpu", PROCESS_SECONDS() - begin);
	tell("pid", getpid());
	return 0;
}
