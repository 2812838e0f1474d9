/* For -pg: calls hot() a thousand times, and tells what becomes of ITIMER_PROF and SIGPROF. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/gmon.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Imported by programs, declared by no header. */
extern void moncontrol(int mode);

static volatile int sink;
static volatile sig_atomic_t signals;

__attribute__((noinline)) void hot(int times)
{
	for (int i = 0; i < times; i++)
		sink += i;
}

__attribute__((noinline)) void cold(void)
{
	sink++;
}

static void count_signal(int signal)
{
	(void)signal;
	signals++;
}

static void print_state(const char *when)
{
	struct itimerval timer;
	struct sigaction action;
	sigset_t mask;
	getitimer(ITIMER_PROF, &timer);
	sigaction(SIGPROF, NULL, &action);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	printf("%s: %ld %s %d\n", when, (long)timer.it_interval.tv_usec,
	       action.sa_handler == SIG_DFL ? "default" : action.sa_handler == count_signal ? "own" : "other",
	       sigismember(&mask, SIGPROF));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sigaction own = { .sa_handler = count_signal };
	struct itimerval often = { { 0, 20000 }, { 0, 20000 } };
	/* What waits for ever is a test that fails. */
	struct rlimit seconds = { 30, 30 };
	setrlimit(RLIMIT_CPU, &seconds);
	print_state("start");
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "own-timer") == 0) {
			sigaction(SIGPROF, &own, NULL);
			setitimer(ITIMER_PROF, &often, NULL);
		} else if (strcmp(argv[i], "pend") == 0) {
			sigset_t set;
			sigaction(SIGPROF, &own, NULL);
			sigemptyset(&set);
			sigaddset(&set, SIGPROF);
			sigprocmask(SIG_BLOCK, &set, NULL);
			raise(SIGPROF);
		} else if (strcmp(argv[i], "pending") == 0) {
			sigset_t set;
			sigpending(&set);
			printf("pending: %d\n", sigismember(&set, SIGPROF));
		} else if (strcmp(argv[i], "moncontrol") == 0) {
			moncontrol(0);
			print_state("moncontrol(0)");
			/* No arcs of these. */
			for (int call = 0; call < 500; call++)
				cold();
			moncontrol(1);
			print_state("moncontrol(1)");
		} else if (strcmp(argv[i], "fork") == 0) {
			fflush(stdout);
			if (fork() != 0)
				wait(NULL);
		} else if (strcmp(argv[i], "signals") == 0) {
			while (signals < 3)
				hot(1000);
		} else if (strcmp(argv[i], "again") == 0) {
			/* As gdb's `maint set profile off` and `on`. */
			extern char __executable_start, etext;
			_mcleanup();
			print_state("_mcleanup");
			monstartup((unsigned long)&__executable_start, (unsigned long)&etext);
			print_state("monstartup");
		}
	}
	for (int call = 0; call < 1000; call++)
		hot(10);
	cold();
	return 0;
}
