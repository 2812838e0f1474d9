/* Calls profil(3) on and off for some seconds of wall time, and tells how long that took and what was counted.
 * bystander SECONDS */
#include "target.h"
#include <sys/time.h>

#define ROUNDS 100000
static unsigned short bins[1 << 15];
static double on[ROUNDS], off[ROUNDS];

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void tell_latency(const char *name, double *times, int count)
{
	char line[64];
	qsort(times, count, sizeof *times, by_size);
	snprintf(line, sizeof line, "%s_p50", name);
	tell(line, times[count / 2]);
	snprintf(line, sizeof line, "%s_p99", name);
	tell(line, times[count * 99 / 100]);
	snprintf(line, sizeof line, "%s_max", name);
	tell(line, times[count - 1]);
}

int main(int argc, char **argv)
{
	double end = WALL_SECONDS() + (argc > 1 ? atof(argv[1]) : 1), cpu = 0;
	int count = 0, failed = 0, by_libc = 0;
	/* glibc's header does not know that profil(2) is turned off with no buffer. */
	unsigned short *nothing = NULL;
	__asm__("" : "+r"(nothing));
	while (WALL_SECONDS() < end && count < ROUNDS) {
		struct itimerval timer;
		double start = WALL_SECONDS();
		/* Two bytes of text for each bin; the program is smaller than what that covers. */
		failed += profil(bins, sizeof bins, (size_t)burn & ~0xfffful, 65536) != 0;
		on[count] = WALL_SECONDS() - start;
		/* libc's own profil counts by this timer. */
		getitimer(ITIMER_PROF, &timer);
		by_libc += timer.it_interval.tv_usec != 0;
		start = THREAD_SECONDS();
		burn(0.01);
		cpu += THREAD_SECONDS() - start;
		start = WALL_SECONDS();
		failed += profil(nothing, 0, 0, 0) != 0;
		off[count++] = WALL_SECONDS() - start;
	}
	long ticks = 0;
	for (size_t i = 0; i < sizeof bins / sizeof *bins; i++)
		ticks += bins[i];
	tell("rounds", count);
	tell("failed", failed);
	tell("by_libc", by_libc);
	tell("ticks", ticks);
	tell("cpu", cpu);
	tell_latency("on", on, count);
	tell_latency("off", off, count);
	return 0;
}
