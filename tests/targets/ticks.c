/* Where ticks of profil(3) come from: user and system time, threads, children. Argument: what. */
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include "calls.h"

extern char **environ;

/* Every pc there is, into the first counter. */
static int on_for_all(void) { return profil(bins, sizeof *bins, 0, 0); }

static int zeros;
static char page[4096];

extern const char after_system_call[];

/* Spends nearly all of its time in the kernel. */
static HOT void reads(long rounds)
{
	for (long i = 0; i < rounds; i++) {
#if defined __x86_64__
		long number = SYS_read;
		__asm__ volatile("syscall\n.globl after_system_call\nafter_system_call:"
		                 : "+a"(number)
		                 : "D"(zeros), "S"(page), "d"(sizeof page)
		                 : "rcx", "r11", "memory");
#elif defined __aarch64__
		register long x8 __asm__("x8") = SYS_read, x0 __asm__("x0") = zeros;
		register char *x1 __asm__("x1") = page;
		register long x2 __asm__("x2") = sizeof page;
		__asm__ volatile("svc 0\n.globl after_system_call\nafter_system_call:"
		                 : "+r"(x0)
		                 : "r"(x8), "r"(x1), "r"(x2)
		                 : "memory");
#endif
	}
}

static void in_kernel(void)
{
	zeros = open("/dev/zero", O_RDONLY);
	profil(bins, sizeof bins, (size_t)reads, fine_scale());
	burn_in(reads, 0.5);
	off();
	tell("after", bins[((size_t)after_system_call - (size_t)reads) / 2]);
	tell("all", ticks(bins, BINS));
	close(zeros);
}

/* User and system time of all threads: two that compute, one that calls. */
static void *computes(void *unused)
{
	burn_in(seventy, 0.5);
	return unused;
}

static void *asks(void *unused)
{
	burn_in(reads, 0.5);
	return unused;
}

static void all_time(void)
{
	pthread_t threads[3];
	zeros = open("/dev/zero", O_RDONLY);
	double begin = PROCESS_SECONDS();
	on_for_all();
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, i ? computes : asks, NULL);
	burn_in(thirty, 1);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	off();
	tell("cpu", PROCESS_SECONDS() - begin);
	tell("counted", bins[0]);
}

/* Threads that were there before, and others that come later, all in one buffer. */
static void *in_seventy(void *seconds_)
{
	burn_in(seventy, *(double *)seconds_);
	return NULL;
}

static void *in_thirty(void *seconds_)
{
	burn_in(thirty, *(double *)seconds_);
	return NULL;
}

static void threads(void)
{
	pthread_t early, late;
	double early_seconds = 0.6, late_seconds = 0.3;
	pthread_create(&early, NULL, in_seventy, &early_seconds);
	on();
	pthread_create(&late, NULL, in_thirty, &late_seconds);
	pthread_join(early, NULL);
	pthread_join(late, NULL);
	off();
	tell("early", ticks_in(bins, low_text(), 2, seventy));
	tell("late", ticks_in(bins, low_text(), 2, thirty));
}

/* Eight threads whose ticks all belong to one counter. */
static void hammer(void)
{
	pthread_t threads[8];
	double cpu_seconds = 0.4;
	unsigned short *counters = mmap(NULL, sizeof bins, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	profil(counters, sizeof bins, 0, 0);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, in_seventy, &cpu_seconds);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	off();
	tell("first", counters[0]);
	tell("rest", ticks(counters + 1, BINS - 1));
}

/* Calls one after the other without "off" between them: of a buffer of the usual size, and of the largest that there may
 * be. */
static void in_turns(void)
{
	enum { LARGEST = 4 << 20 };
	unsigned short *large = mmap(NULL, LARGEST * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double used[2] = {0};
	for (int i = 0; i < 12; i++) {
		if (i % 2)
			profil(large, LARGEST * 2, low_text(), fine_scale());
		else
			on();
		double begin = THREAD_SECONDS();
		burn_in(seventy, 0.04);
		used[i % 2] += THREAD_SECONDS() - begin;
	}
	off();
	tell("small_cpu", used[0]);
	tell("small", ticks_in(bins, low_text(), 2, seventy));
	tell("large_cpu", used[1]);
	tell("large", ticks_in(large, low_text(), 2, seventy));
	tell("all", ticks(bins, BINS) + ticks(large, LARGEST));
}

static void *five_ms(void *unused)
{
	burn_in(seventy, 0.005);
	return unused;
}

static void short_threads(void)
{
	double begin = PROCESS_SECONDS();
	on_for_all();
	for (int i = 0; i < 100; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, five_ms, NULL);
		pthread_join(thread, NULL);
	}
	off();
	tell("cpu", PROCESS_SECONDS() - begin);
	tell("counted", bins[0]);
}

/* A hundred times on and off, for half a period of CPU time each. */
static void stretches(void)
{
	double used = 0;
	for (int i = 0; i < 100; i++) {
		on_for_all();
		double begin = PROCESS_SECONDS();
		burn_in(seventy, 0.005);
		used += PROCESS_SECONDS() - begin;
		off();
	}
	tell("cpu", used);
	tell("counted", bins[0]);
}

static pid_t raw_clone(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

/* A child that is no child of fork(2) uses 0.4 s in one function, its parent 0.3 in the other. */
static void child_of(const char *how, char *self)
{
	pid_t child;
	int status;
	on();
	if (strcmp(how, "vfork") == 0) {
		child = vfork();
		if (child == 0) {
			burn_in(seventy, 0.4);
			_exit(0);
		}
	} else if (strcmp(how, "spawn") == 0) {
		char *arguments[] = {self, "spawned", NULL};
		if (posix_spawn(&child, self, NULL, NULL, arguments, environ))
			exit(8);
	} else if (strcmp(how, "vfork_exec") == 0) {
		child = vfork();
		if (child == 0) {
			execl(self, self, "spawned", NULL);
			_exit(7);
		}
	} else {
		child = raw_clone();
		if (child == 0) {
			burn_in(seventy, 0.4);
			_exit(ticks_in(bins, low_text(), 2, seventy) != 0);
		}
	}
	waitpid(child, &status, 0);
	tell("status", status);
	burn_in(thirty, 0.3);
	off();
	tell("of_child", ticks_in(bins, low_text(), 2, seventy));
	tell("of_parent", ticks_in(bins, low_text(), 2, thirty));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "in_kernel") == 0)
		in_kernel();
	else if (strcmp(what, "all_time") == 0)
		all_time();
	else if (strcmp(what, "threads") == 0)
		threads();
	else if (strcmp(what, "hammer") == 0)
		hammer();
	else if (strcmp(what, "in_turns") == 0)
		in_turns();
	else if (strcmp(what, "short_threads") == 0)
		short_threads();
	else if (strcmp(what, "stretches") == 0)
		stretches();
	else if (strcmp(what, "child") == 0 && argc > 2)
		child_of(argv[2], argv[0]);
	else if (strcmp(what, "spawned") == 0) {
		burn_in(seventy, 0.4);
		return ticks(bins, BINS) != 0;
	} else
		return 2;
	return 0;
}
