/* A program for gcc -pg, whose calls and times are known. Arguments: CPU seconds; whether to pause. */
#include "calls.h"

/* Of libc, in no header of its own. */
extern void moncontrol(int mode);

static NOINLINE void twice(void (*function)(long), long rounds)
{
	function(rounds);
	function(rounds);
}

/* Whether a timer is armed, or SIGPROF is somebody's: the program itself uses neither. */
static double armed(void)
{
	struct itimerval timer;
	struct sigaction action;
	getitimer(ITIMER_PROF, &timer);
	sigaction(SIGPROF, NULL, &action);
	return timer.it_interval.tv_sec || timer.it_interval.tv_usec || action.sa_handler != SIG_DFL;
}

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1, used[2] = {0}, begin = THREAD_SECONDS();
	long rounds = 0;
	tell("armed", armed());
	do {
		double before = THREAD_SECONDS();
		twice(seventy, 700000);
		double between = THREAD_SECONDS();
		twice(thirty, 300000);
		used[0] += between - before;
		used[1] += THREAD_SECONDS() - between;
		rounds++;
	} while (THREAD_SECONDS() - begin < wanted);
	if (argc > 2) {
		/* As much again, of which nobody takes notice; then a bit more. */
		moncontrol(0);
		tell("armed_in_pause", armed());
		for (long i = 0; i < rounds; i++)
			twice(seventy, 700000);
		moncontrol(1);
		double before = THREAD_SECONDS();
		burn_in(thirty, wanted / 2);
		used[1] += THREAD_SECONDS() - before;
		tell("armed_afterwards", armed());
	}
	tell("seventy_cpu", used[0]);
	tell("thirty_cpu", used[1]);
	tell("rounds", rounds);
	tell("pid", getpid());
	return 0;
}
