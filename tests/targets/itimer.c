/* A program that has timers and signals of its own while profil(3) is on. Arguments: what; more. */
#include <sys/mman.h>
#include "calls.h"

static volatile long handled;

static void on_prof(int number)
{
	(void)number;
	handled = handled + 1;
}

static double interval_us(void)
{
	struct itimerval timer;
	getitimer(ITIMER_PROF, &timer);
	return timer.it_interval.tv_sec * 1e6 + timer.it_interval.tv_usec;
}

/* Its own ITIMER_PROF counts what the kernel counts as well. */
static void both(double cpu_seconds)
{
	struct itimerval every = {{0, 10000}, {0, 10000}};
	struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
	tell("interval_before", interval_us());
	double begin = PROCESS_SECONDS();
	long handled_before = handled;
	tell("on", profil(bins, sizeof *bins, 0, 0));
	burn_in(seventy, cpu_seconds / 2);
	tell("interval_during", interval_us());
	burn_in(seventy, cpu_seconds / 2);
	tell("off", off());
	tell("cpu", PROCESS_SECONDS() - begin);
	tell("handled", handled - handled_before);
	tell("counted", bins[0]);
	tell("interval_after", interval_us());
}

/* Its timers and signals as the kernel knows them. */
static void show(const char *when)
{
	sigset_t mask, pending;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	sigpending(&pending);
	printf("%s:", when);
	for (int i = 1; i < NSIG; i++) {
		struct sigaction action = {.sa_flags = 0};
		sigaction(i, NULL, &action);
		printf(" %d=%p,%x,%d,%d", i, (void *)action.sa_handler, action.sa_flags, sigismember(&mask, i),
		       sigismember(&pending, i));
	}
	for (int i = ITIMER_REAL; i <= ITIMER_PROF; i++) {
		struct itimerval timer;
		getitimer(i, &timer);
		printf(" timer%d=%ld.%06ld,%d", i, timer.it_interval.tv_sec, timer.it_interval.tv_usec, timer.it_value.tv_sec > 0);
	}
	FILE *timers = fopen("/proc/self/timers", "r");
	for (int c; timers && (c = getc(timers)) != EOF;)
		putchar(c == '\n' ? ' ' : c);
	fclose(timers);
	putchar('\n');
	fflush(stdout);
}

static void unchanged(void)
{
	timer_t timers[3];
	struct itimerspec once = {{0, 0}, {1000, 0}};
	clockid_t clocks[3] = {CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
	for (int i = 0; i < 3; i++) {
		struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + i};
		if (timer_create(clocks[i], &event, &timers[i]) || timer_settime(timers[i], 0, &once, NULL))
			exit(8);
	}
	struct itimerval prof = {{900, 0}, {900, 0}};
	struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART | SA_NODEFER};
	sigset_t mask;
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigaddset(&mask, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	raise(SIGUSR1);
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &prof, NULL);
	show("before");
	on();
	burn_in(seventy, 0.3);
	show("during");
	off();
	show("after");
	tell("counted", ticks(bins, BINS));
	tell("handled", handled);
}

static void *busy(void *unused)
{
	burn_in(seventy, 0.7);
	return unused;
}

static void *nothing(void *unused) { return unused; }

/* Calls that a signal would interrupt, with ticks of their own and beside a busy thread. */
static void waits(void)
{
	long interrupted = 0, failed = 0;
	int pipes[2];
	char byte;
	pthread_t thread, short_one;
	if (pipe(pipes))
		exit(8);
	on();
	pthread_create(&thread, NULL, busy, NULL);
	for (int i = 0; i < 200; i++) {
		interrupted += interrupted_waits(pipes);
		burn_in(thirty, 0.001);
		failed += pthread_create(&short_one, NULL, nothing, NULL) != 0;
		failed += pthread_join(short_one, NULL) != 0;
	}
	/* A read that waits for the other thread to be done with its work. */
	pid_t child = fork();
	if (child == 0) {
		struct timespec pause = {0, 300000000};
		nanosleep(&pause, NULL);
		_exit(write(pipes[1], "x", 1) != 1);
	}
	interrupted += read(pipes[0], &byte, 1) < 0 && errno == EINTR;
	waitpid(child, NULL, 0);
	pthread_join(thread, NULL);
	off();
	tell("interrupted", interrupted);
	tell("failed", failed);
	tell("counted", ticks(bins, BINS));
}

/* Children of a process that has so much memory that a fork takes many ticks. */
static void forks(long megabytes)
{
	long failed = 0;
	size_t bytes = megabytes << 20;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		exit(8);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	memset(memory, 1, bytes);
	/* 2 MiB of text around the system call, which libc makes: 64 bytes a counter. */
	profil(bins, sizeof bins, (size_t)fork - (1 << 20), 131072 / 64);
	for (int i = 0; i < 20; i++) {
		int status = -1;
		pid_t child = fork();
		if (child == 0)
			_exit(memory[bytes - 1] - 1);
		failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
	}
	off();
	tell("failed", failed);
	tell("counted", ticks(bins, BINS));
}

/* One signal that it sends itself, so that who looks for signals sees one. */
static void signals(void)
{
	signal(SIGUSR2, SIG_IGN);
	on();
	burn_in(seventy, 0.2);
	kill(getpid(), SIGUSR2);
	burn_in(seventy, 0.2);
	off();
	tell("counted", ticks(bins, BINS));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "both") == 0 && argc > 2)
		both(atof(argv[2]));
	else if (strcmp(what, "unchanged") == 0)
		unchanged();
	else if (strcmp(what, "waits") == 0)
		waits();
	else if (strcmp(what, "forks") == 0 && argc > 2)
		forks(atol(argv[2]));
	else if (strcmp(what, "signals") == 0)
		signals();
	else
		return 2;
	return 0;
}
