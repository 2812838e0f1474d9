/* Calls of profil(3) as the table of conventions has them. Argument: what. */
#include <sys/mman.h>
#include "calls.h"

#define PRESET 7

/* A region of its own, at a place where nothing else will be. */
static unsigned short *pages(int protection)
{
	void *map = mmap(NULL, sizeof bins, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		exit(8);
	return map;
}

static void shares(void)
{
	for (unsigned i = 0; i < BINS; i++)
		bins[i] = PRESET;
	tell("on", on());
	split(1);
	tell("off", off());
	unsigned less = 0;
	for (unsigned i = 0; i < BINS; i++) {
		less += bins[i] < PRESET;
		bins[i] -= PRESET;
	}
	tell("less", less);
	tell("seventy", ticks_in(bins, low_text(), 2, seventy));
	tell("thirty", ticks_in(bins, low_text(), 2, thirty));
	tell("all", ticks(bins, BINS));
}

/* On, then a second call: bins, null or bad; bytes; scale. What it returns, and what is counted afterwards. */
static void again(char **arguments)
{
	unsigned short *bad = pages(PROT_NONE);
	unsigned short *buffer = strcmp(arguments[0], "bins") == 0 ? bins : strcmp(arguments[0], "bad") == 0 ? bad : no_buffer;
	on();
	burn_in(seventy, 0.05);
	/* Ticks come to the buffer at most 100 ms late. */
	usleep(300000);
	errno = 0;
	tell("result", profil(buffer, strtoul(arguments[1], NULL, 0), low_text(), strtoul(arguments[2], NULL, 0)));
	tell("errno", errno);
	mprotect(bad, sizeof bins, PROT_READ | PROT_WRITE);
	double before = ticks(bins, BINS), first = bins[0];
	burn_in(seventy, 0.3);
	off();
	tell("before", before);
	tell("later", ticks(bins, BINS) - before);
	tell("first", bins[0] - first);
	tell("bad", ticks(bad, BINS));
}

/* The buffer goes away while profiling is on, and others come to its place. */
static void lost(void)
{
	unsigned short *buffer = pages(PROT_READ | PROT_WRITE);
	profil(buffer, sizeof bins, low_text(), fine_scale());
	burn_in(seventy, 0.3);
	munmap(buffer, sizeof bins);
	burn_in(seventy, 0.3);
	if (mmap(buffer, sizeof bins, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != buffer)
		exit(8);
	burn_in(seventy, 0.3);
	tell("off", off());
	tell("written", ticks(buffer, BINS));
	tell("on", on());
	burn_in(seventy, 0.3);
	tell("off_again", off());
	tell("counted", ticks(bins, BINS));
}

/* All ticks into the first counter, which is nearly full. Scale 2 does it in each convention. */
static void wrap(void)
{
	bins[0] = 65530;
	bins[1] = 5;
	profil(bins, sizeof bins, low_text(), 2);
	burn_in(seventy, 0.3);
	off();
	tell("first", bins[0]);
	tell("second", bins[1]);
	tell("rest", ticks(bins + 2, BINS - 2));
}

static void tell_functions(const char *low, const char *high)
{
	void (*functions[2])(long) = {seventy, thirty};
	int swapped = low_text() != address(seventy);
	tell(low, ticks_in(bins, low_text(), 2, functions[swapped]));
	tell(high, ticks_in(bins, low_text(), 2, functions[!swapped]));
}

static void burn_low(double cpu_seconds) { burn_in((void (*)(long))low_text(), cpu_seconds); }
static void burn_high(double cpu_seconds) { burn_in((void (*)(long))high_text(), cpu_seconds); }

/* The parent uses 0.3 s in the low function, then the child 0.4 and the parent 0.2 in the high one. */
static void forks(void)
{
	on();
	burn_low(0.3);
	pid_t child = fork();
	if (child == 0) {
		tell_functions("child_start", "child_start_high");
		burn_high(0.4);
		tell("child_off", off());
		tell_functions("child_low", "child_high");
		exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	tell("child_status", status);
	burn_high(0.2);
	tell("off", off());
	tell_functions("low", "high");
}

/* The same buffer at the same address in the next image of the process, which is told so by `image`. */
static void execs(char *self)
{
	on();
	burn_in(seventy, 0.2);
	execl(self, self, "image", NULL);
	exit(7);
}

static void image(void)
{
	burn_in(seventy, 0.4);
	tell("written", ticks(bins, BINS));
	tell("off", off());
	tell("written_at_off", ticks(bins, BINS));
	on();
	burn_in(seventy, 0.3);
	off();
	tell("counted", ticks(bins, BINS));
}

/* Another buffer, size, offset and scale, all at once. */
static void replace(void)
{
	static unsigned short other[BINS];
	const unsigned counters = HOT_BYTES / 4;
	on();
	burn_low(0.3);
	tell("second", profil(other, 2 * counters, high_text(), convention_is("clix") ? 037777 : 32768));
	tell("old", ticks(bins, BINS));
	burn_low(0.2);
	burn_high(0.4);
	off();
	tell("old_later", ticks(bins, BINS));
	tell("new", ticks(other, counters));
	tell("new_beyond", ticks(other + counters, BINS - counters));
}

/* Half a function with a counter for each two bytes, and an odd byte; ticks below, in and above the region. */
static void bounds(void)
{
	const unsigned counters = HOT_BYTES / 2;
	memset(bins, 0, 2 * counters);
	memset(bins + counters, 0xaa, sizeof bins - 2 * counters);
	profil(bins, 2 * counters + 1, low_text(), fine_scale());
	burn_low(0.2);
	burn_high(0.3);
	off();
	tell("low", ticks(bins, counters));
	unsigned changed = 0;
	for (unsigned i = counters; i < BINS; i++)
		changed += bins[i] != 0xaaaa;
	tell("changed", changed);

	memset(bins, 0, sizeof bins);
	profil(bins, sizeof bins, high_text(), fine_scale());
	burn_low(0.3);
	burn_high(0.2);
	off();
	tell("above", ticks(bins, HOT_BYTES / 2));
	tell("all", ticks(bins, BINS));
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	const char *what = argv[1];
	if (strcmp(what, "shares") == 0)
		shares();
	else if (strcmp(what, "again") == 0 && argc == 5)
		again(argv + 2);
	else if (strcmp(what, "lost") == 0)
		lost();
	else if (strcmp(what, "wrap") == 0)
		wrap();
	else if (strcmp(what, "fork") == 0)
		forks();
	else if (strcmp(what, "exec") == 0)
		execs(argv[0]);
	else if (strcmp(what, "image") == 0)
		image();
	else if (strcmp(what, "replace") == 0)
		replace();
	else if (strcmp(what, "bounds") == 0)
		bounds();
	else
		return 2;
	return 0;
}
