/* What the targets have in common: clocks, telling the truth, waiting for the word to go on. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone, unused))

static inline double seconds(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

#define THREAD_SECONDS() seconds(CLOCK_THREAD_CPUTIME_ID)
#define PROCESS_SECONDS() seconds(CLOCK_PROCESS_CPUTIME_ID)
#define WALL_SECONDS() seconds(CLOCK_MONOTONIC)

/* CPU seconds of all children that have been waited for. */
static inline double children_seconds(void)
{
	struct rusage usage;
	getrusage(RUSAGE_CHILDREN, &usage);
	return usage.ru_utime.tv_sec + usage.ru_utime.tv_usec * 1e-6 + usage.ru_stime.tv_sec + usage.ru_stime.tv_usec * 1e-6;
}

/* The compiler can neither shorten nor drop it; about a nanosecond or less each. */
#define LOOP(rounds) for (long round_ = 0; round_ < (rounds); round_++) __asm__ volatile("")

/* Uses CPU time of this thread, in user mode but for the reading of the clock. */
static NOINLINE void burn(double cpu_seconds)
{
	double end = THREAD_SECONDS() + cpu_seconds;
	do
		LOOP(100000);
	while (THREAD_SECONDS() < end);
}

static inline void tell(const char *name, double value)
{
	printf("%s %.9f\n", name, value);
	fflush(stdout);
}

static inline void await_line(void)
{
	char line[16];
	if (!fgets(line, sizeof line, stdin))
		exit(9);
}

/* Says that it is ready, and waits for a line, when run by Running; goes on at once otherwise. */
static inline void await_go(void)
{
	if (!getenv("AWAIT_GO"))
		return;
	puts("ready");
	fflush(stdout);
	await_line();
}

/* Waits in three ways, the last of them for a byte that is there: how often a signal interrupted that. */
static inline long interrupted_waits(const int *pipes)
{
	struct timespec pause = {0, 1000000};
	struct pollfd none = {pipes[0], POLLIN, 0};
	char byte;
	long interrupted = nanosleep(&pause, NULL) < 0 && errno == EINTR;
	interrupted += poll(&none, 1, 2) < 0 && errno == EINTR;
	if (write(pipes[1], "x", 1) != 1)
		abort();
	return interrupted + (read(pipes[0], &byte, 1) < 0 && errno == EINTR);
}
