/* What the targets that call profil(3) have in common: text to be profiled, and the way each convention is spoken to. */
#include <sys/profil.h>
#include <sys/time.h>
#include "target.h"

/* Bytes between one hot function and the next; none of them is longer. */
#define HOT_BYTES 1024
#define HOT __attribute__((noinline, noclone, used, aligned(HOT_BYTES)))

/* Two functions whose ticks a region tells apart; whichever the linker puts first. */
static HOT void seventy(long rounds) { LOOP(rounds); }
static HOT void thirty(long rounds) { LOOP(rounds); }

static inline size_t address(void (*function)(long)) { return (size_t)function; }

/* The lower and the higher one. */
static inline size_t low_text(void)
{
	return address(seventy) < address(thirty) ? address(seventy) : address(thirty);
}

static inline size_t high_text(void)
{
	return address(seventy) < address(thirty) ? address(thirty) : address(seventy);
}

/* Counters for both at two bytes each: a text of 64 KiB, in which they are neighbours whatever lies between them. */
#define BINS 32768
static unsigned short bins[BINS] __attribute__((unused));

/* Ticks in a function, in counters from `offset` on that stand for so many bytes each. */
static inline double ticks_in(const unsigned short *counters, size_t offset, unsigned bytes, void (*function)(long))
{
	double sum = 0;
	for (unsigned i = 0; i < HOT_BYTES / bytes; i++)
		sum += counters[(address(function) - offset) / bytes + i];
	return sum;
}

static inline double ticks(const unsigned short *counters, unsigned count)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += counters[i];
	return sum;
}

/* Uses CPU time, 70 % of it in the one and 30 % in the other, or as it turns out: that is told. */
static inline void split(double cpu_seconds)
{
	double used[2] = {0}, begin = THREAD_SECONDS();
	while (THREAD_SECONDS() - begin < cpu_seconds) {
		double before = THREAD_SECONDS();
		seventy(700000);
		double between = THREAD_SECONDS();
		thirty(300000);
		used[0] += between - before;
		used[1] += THREAD_SECONDS() - between;
	}
	tell("seventy_cpu", used[0]);
	tell("thirty_cpu", used[1]);
}

/* Uses CPU time in the lower or the higher of the two functions. */
static inline void burn_in(void (*function)(long), double cpu_seconds)
{
	double end = THREAD_SECONDS() + cpu_seconds;
	while (THREAD_SECONDS() < end)
		function(300000);
}

static inline int convention_is(const char *name)
{
	const char *convention = getenv("PROFIL_CONVENTION");
	return convention && strcmp(convention, name) == 0;
}

/* The scale that gives each two bytes of text a counter. */
static inline unsigned fine_scale(void) { return convention_is("clix") ? 077777 : 65536; }

static inline int on(void) { return profil(bins, sizeof bins, low_text(), fine_scale()); }

/* A null pointer that the compiler cannot see: the header says that profil(3) takes none. */
static unsigned short *volatile no_buffer __attribute__((unused));

static inline int off(void)
{
	if (convention_is("bsd") || convention_is("clix"))
		return profil(bins, sizeof bins, low_text(), 0);
	return profil(no_buffer, 0, 0, 0);
}
