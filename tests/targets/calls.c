/* Calls of profil(3) from where they are least expected. Argument: what. */
#include <dirent.h>
#include <setjmp.h>
#include <sys/mman.h>
#include "calls.h"

/* Off, and then nothing more: not in the buffer, not in what comes to its place. */
static void final_off(void)
{
	unsigned short *buffer = mmap(NULL, sizeof bins, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static unsigned short snapshot[BINS];
	double missing = 0, begin, used = 0;
	unsigned late = 0;
	for (int round = 0; round < 20; round++) {
		profil(buffer, sizeof bins, low_text(), fine_scale());
		begin = THREAD_SECONDS();
		burn_in(seventy, 0.05);
		used += THREAD_SECONDS() - begin;
		off();
		memcpy(snapshot, buffer, sizeof snapshot);
		burn_in(seventy, 0.02);
		late += memcmp(snapshot, buffer, sizeof snapshot) != 0;
		missing += ticks(buffer, BINS);
		memset(buffer, 0, sizeof bins);
	}
	/* Longer than bins are ever on their way. */
	struct timespec pause = {0, 300000000};
	nanosleep(&pause, NULL);
	late += ticks(buffer, BINS) != 0;
	munmap(buffer, sizeof bins);
	unsigned short *heap = calloc(BINS, sizeof *heap);
	profil(heap, sizeof bins, low_text(), fine_scale());
	burn_in(seventy, 0.05);
	off();
	free(heap);
	heap = calloc(BINS, sizeof *heap);
	burn_in(seventy, 0.05);
	nanosleep(&pause, NULL);
	late += ticks(heap, BINS) != 0;
	free(heap);
	tell("late", late);
	tell("counted", missing);
	tell("used", used);
}

static volatile sig_atomic_t signals;
static sigjmp_buf before_signal;

/* Not at an interval: signals would come faster than a handler is done, and what they interrupt would never go on. */
static void next_signal(void)
{
	struct itimerval once = {{0, 0}, {0, 3000 + 997 * (signals % 13)}};
	setitimer(ITIMER_REAL, &once, NULL);
}

/* Turns profiling off and on again, over whatever it interrupts. */
static void on_alarm(int number)
{
	(void)number;
	signals++;
	off();
	on();
	next_signal();
}

static void jump(int number)
{
	(void)number;
	signals++;
	on();
	next_signal();
	siglongjmp(before_signal, 1);
}

static void start_signals(void (*handler)(int))
{
	signal(SIGALRM, handler);
	next_signal();
}

static void no_timer(void)
{
	struct itimerval none = {0};
	setitimer(ITIMER_REAL, &none, NULL);
	signal(SIGALRM, SIG_IGN);
}

/* A handler that calls profil(3), which interrupts calls of profil(3). */
static void handler(void)
{
	unsigned failed = 0;
	start_signals(on_alarm);
	while (signals < 40) {
		failed += on() != 0;
		failed += off() != 0;
	}
	no_timer();
	tell("failed", failed);
}

/* A handler that jumps out of calls of profil(3). */
static void jumps(void)
{
	volatile unsigned failed = 0;
	start_signals(jump);
	sigsetjmp(before_signal, 1);
	while (signals < 40) {
		failed += on() != 0;
		failed += off() != 0;
	}
	no_timer();
	tell("failed", failed);
}

static void tell_that_it_counts(void)
{
	memset(bins, 0, sizeof bins);
	tell("on", on());
	burn_in(seventy, 0.3);
	tell("off", off());
	tell("counted", ticks(bins, BINS));
}

static void *rest(void *unused)
{
	(void)unused;
	struct timespec pause = {0, 100000000};
	nanosleep(&pause, NULL);
	memset(bins, 0, sizeof bins);
	burn_in(seventy, 0.3);
	tell("off", off());
	tell("counted", ticks(bins, BINS));
	exit(0);
}

/* The first thread ends; the others go on, and one of them turns profiling off. */
static void leader_ends(void)
{
	pthread_t thread;
	on();
	pthread_create(&thread, NULL, rest, NULL);
	pthread_exit(NULL);
}

static void *calls(void *failed)
{
	double end = WALL_SECONDS() + 0.7;
	while (WALL_SECONDS() < end) {
		*(unsigned *)failed += on() != 0;
		*(unsigned *)failed += off() != 0;
	}
	return NULL;
}

/* Two threads that call all the time, while the process ends or until they have had enough. */
static void racing(int to_the_end)
{
	pthread_t threads[2];
	unsigned failed[2] = {0};
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, calls, &failed[i]);
	if (!to_the_end) {
		struct timespec pause = {0, 200000000};
		nanosleep(&pause, NULL);
		exit(0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	tell("failed", failed[0] + failed[1]);
	off();
}

/* errno of calls that succeed stays, and a call is no cancellation point. */
static void quiet(void)
{
	unsigned changed = 0;
	for (int i = 0; i < 10; i++) {
		errno = 4711;
		on();
		changed += errno != 4711;
		off();
		changed += errno != 4711;
	}
	tell("changed", changed);
	pthread_cancel(pthread_self());
	on();
	off();
	int old;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	tell("cancelled", 0);
}

static double entries(const char *path)
{
	double count = 0;
	DIR *folder = opendir(path);
	while (folder && readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static double lines(const char *path)
{
	double count = 0;
	FILE *file = fopen(path, "r");
	for (int c; (c = getc(file)) != EOF;)
		count += c == '\n';
	fclose(file);
	return count;
}

static double pages_mapped(void)
{
	double pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (fscanf(file, "%lf", &pages) != 1)
		exit(8);
	fclose(file);
	return pages;
}

static double held[4];

static void note_held(void)
{
	held[0] = entries("/proc/self/fd");
	held[1] = lines("/proc/self/maps");
	held[2] = entries("/proc/self/task");
	held[3] = pages_mapped();
}

static void say(const char *word)
{
	puts(word);
	fflush(stdout);
	await_line();
}

static void starts_and_stops(int count)
{
	for (int i = 0; i < count; i++) {
		on();
		off();
	}
}

/* A thousand starts and stops; who started us looks at itself in between. */
static void thousand(void)
{
	starts_and_stops(50);
	note_held(); /* Once before, for stdio's own buffers. */
	note_held();
	double first[4];
	memcpy(first, held, sizeof first);
	await_go();
	starts_and_stops(1000);
	note_held();
	tell("fds", held[0] - first[0]);
	tell("maps", held[1] - first[1]);
	tell("threads", held[2] - first[2]);
	tell("pages", held[3] - first[3]);
	say("done");
}

/* Children that are profiled and end without a word. */
static void children(void)
{
	unsigned failed = 0;
	await_go();
	on();
	for (int i = 0; i < 100; i++) {
		int status;
		pid_t child = fork();
		if (child == 0) {
			burn_in(seventy, 0.002);
			_exit(0);
		}
		failed += child < 0 || waitpid(child, &status, 0) != child || status != 0;
	}
	tell("failed", failed);
	say("done");
	tell("off", off());
}

/* More callers at once than a user may have connections. */
static void crowd(void)
{
	enum { CALLERS = 128 };
	unsigned failed = 0, by_libc = 0;
	int status, start[2];
	if (pipe(start))
		exit(2);
	for (int i = 0; i < CALLERS; i++) {
		if (fork() == 0) {
			char byte;
			struct itimerval timer;
			close(start[1]);
			if (read(start[0], &byte, 1) != 0 || on() != 0)
				_exit(1);
			/* libc's own profil(3) has a timer. */
			getitimer(ITIMER_PROF, &timer);
			_exit(off() != 0 ? 1 : timer.it_interval.tv_usec != 0 ? 2 : 0);
		}
	}
	close(start[0]);
	close(start[1]);
	while (wait(&status) > 0) {
		by_libc += WIFEXITED(status) && WEXITSTATUS(status) == 2;
		failed += !WIFEXITED(status) || WEXITSTATUS(status) == 1;
	}
	tell("failed", failed);
	tell("by_libc", by_libc);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "final_off") == 0)
		final_off();
	else if (strcmp(what, "handler") == 0)
		handler(), tell_that_it_counts();
	else if (strcmp(what, "jumps") == 0)
		jumps(), tell_that_it_counts();
	else if (strcmp(what, "leader_ends") == 0)
		leader_ends();
	else if (strcmp(what, "racing") == 0)
		racing(1), tell_that_it_counts();
	else if (strcmp(what, "exit") == 0)
		racing(0);
	else if (strcmp(what, "quiet") == 0)
		quiet();
	else if (strcmp(what, "thousand") == 0)
		thousand();
	else if (strcmp(what, "crowd") == 0)
		crowd();
	else if (strcmp(what, "children") == 0)
		children();
	else
		return 2;
	return 0;
}
