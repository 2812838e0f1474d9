/* Calls of sprofil(3). Argument: what. */
#include "calls.h"

static unsigned wide[BINS], wide_too[BINS];
static unsigned short more_bins[BINS], overflow[4];

static double wide_ticks(const unsigned *counters, unsigned count)
{
	double sum = 0;
	for (unsigned i = 0; i < count; i++)
		sum += counters[i];
	return sum;
}

static void burn_low(double cpu_seconds) { burn_in((void (*)(long))low_text(), cpu_seconds); }
static void burn_high(double cpu_seconds) { burn_in((void (*)(long))high_text(), cpu_seconds); }

/* Uses time outside all functions that are profiled. */
static HOT void elsewhere(long rounds) { LOOP(rounds); }

static int stop(void) { return sprofil(NULL, 0, NULL, 0); }

static struct prof region(void *counters, size_t bytes, size_t offset, unsigned long scale)
{
	struct prof prof = {counters, bytes, offset, scale};
	return prof;
}

/* Two regions with different scales, so small that a third of their text has no counter. */
static void widths(unsigned flags)
{
	struct timeval period = {-1, -1};
	int is_wide = (flags & PROF_UINT) != 0;
	unsigned width = is_wide ? 4 : 2;
	struct prof regions[2] = {
		region(is_wide ? (void *)wide : bins, width * (HOT_BYTES / width) + width - 1, low_text(), 65536),
		region(is_wide ? (void *)wide_too : more_bins, width * (HOT_BYTES / width / 2), high_text(), 32768),
	};
	tell("on", sprofil(regions, 2, &period, flags));
	tell("period_us", period.tv_sec * 1e6 + period.tv_usec);
	burn_low(0.3);
	burn_high(0.2);
	burn_in(elsewhere, 0.1);
	tell("off", stop());
	unsigned low_bins = HOT_BYTES / width, high_bins = low_bins / 2;
	tell("low", is_wide ? wide_ticks(wide, low_bins) : ticks(bins, low_bins));
	tell("high", is_wide ? wide_ticks(wide_too, high_bins) : ticks(more_bins, high_bins));
	tell("beyond", is_wide ? wide_ticks(wide + low_bins, BINS - low_bins) + wide_ticks(wide_too + high_bins, BINS - high_bins)
	                       : ticks(bins + low_bins, BINS - low_bins) + ticks(more_bins + high_bins, BINS - high_bins));
	double before = is_wide ? wide_ticks(wide, BINS) : ticks(bins, BINS);
	burn_low(0.2);
	tell("late", (is_wide ? wide_ticks(wide, BINS) : ticks(bins, BINS)) - before);
}

/* Counters that are nearly full. A region of scale 2 has one counter for all of it. */
static void saturate(void)
{
	struct prof region16 = region(bins, sizeof *bins * 2, low_text(), 2);
	bins[0] = 65530;
	tell("on", sprofil(&region16, 1, NULL, PROF_USHORT));
	burn_low(0.2);
	burn_high(0.2);
	stop();
	tell("first", bins[0]);
	tell("second", bins[1]);
	struct prof region32 = region(wide, sizeof *wide * 2, low_text(), 2);
	wide[0] = 0xfffffff0;
	sprofil(&region32, 1, NULL, PROF_UINT);
	burn_low(0.2);
	stop();
	tell("wide_first", wide[0]);
	tell("wide_second", wide[1]);
}

/* One region over both functions, another that begins with the higher one, and the overflow entry. */
static void overlap(void)
{
	struct prof regions[3] = {
		region(bins, sizeof bins, low_text(), 65536),
		region(overflow, sizeof overflow, 0, 2),
		region(more_bins, HOT_BYTES, high_text(), 65536),
	};
	tell("on", sprofil(regions, 3, NULL, PROF_USHORT));
	burn_low(0.2);
	burn_high(0.3);
	tell("off", stop());
	tell("low", ticks_in(bins, low_text(), 2, (void (*)(long))low_text()));
	tell("high_in_low", ticks_in(bins, low_text(), 2, (void (*)(long))high_text()));
	tell("high", ticks(more_bins, HOT_BYTES / 2));
}

/* Regions of single functions, and the overflow entry for what matches neither. */
static void rest(void)
{
	struct prof regions[3] = {
		region(bins, HOT_BYTES, low_text(), 65536),
		region(more_bins, HOT_BYTES, high_text(), 65536),
		region(overflow, sizeof overflow, 0, 2),
	};
	sprofil(regions, 3, NULL, PROF_USHORT | PROF_FAST);
	burn_low(0.1);
	burn_in(elsewhere, 0.4);
	burn_high(0.1);
	stop();
	tell("low", ticks(bins, BINS));
	tell("high", ticks(more_bins, BINS));
	tell("overflow", overflow[0]);
	tell("overflow_rest", ticks(overflow + 1, 3));
}

/* All ticks below the only region. */
static void below(void)
{
	struct prof high = region(bins, sizeof bins, (size_t)-1 & ~0xffffUL, 65536);
	tell("on", sprofil(&high, 1, NULL, PROF_USHORT));
	burn_low(0.3);
	tell("off", stop());
	tell("counted", ticks(bins, BINS));
}

/* Functions in turn, a few milliseconds each: whoever remembers the last region misfiles these. */
static void switches(void)
{
	struct prof regions[2] = {
		region(bins, HOT_BYTES, low_text(), 65536),
		region(more_bins, HOT_BYTES, high_text(), 65536),
	};
	double used[2] = {0};
	sprofil(regions, 2, NULL, PROF_USHORT);
	for (int i = 0; i < 300; i++) {
		double before = THREAD_SECONDS();
		burn_low(0.0023);
		double between = THREAD_SECONDS();
		burn_high(0.0011);
		used[0] += between - before;
		used[1] += THREAD_SECONDS() - between;
	}
	stop();
	tell("low_cpu", used[0]);
	tell("high_cpu", used[1]);
	tell("low", ticks(bins, BINS));
	tell("high", ticks(more_bins, BINS));
}

/* The second call goes on with other regions; on and off and on again, many times. */
static void second(void)
{
	struct prof first = region(bins, sizeof bins, low_text(), 65536);
	struct prof next = region(more_bins, sizeof more_bins, low_text(), 65536);
	unsigned failed = 0;
	sprofil(&first, 1, NULL, 0);
	burn_low(0.2);
	tell("second", sprofil(&next, 1, NULL, 0));
	double before = ticks(bins, BINS);
	burn_low(0.3);
	stop();
	tell("first", before);
	tell("first_later", ticks(bins, BINS) - before);
	tell("next", ticks(more_bins, BINS));
	for (int i = 0; i < 20; i++) {
		failed += sprofil(&next, 1, NULL, 0) != 0;
		failed += sprofil(&first, 1, NULL, 0) != 0;
		failed += stop() != 0;
		failed += stop() != 0;
	}
	tell("failed", failed);
	before = ticks(more_bins, BINS);
	sprofil(&next, 1, NULL, 0);
	burn_low(0.2);
	stop();
	tell("again", ticks(more_bins, BINS) - before);
}

/* As many regions as there may be, and more; bad flags and counts; profiling goes on as before. */
static void too_many(void)
{
	static unsigned short counters[65][4];
	struct prof regions[65];
	struct prof good = region(bins, sizeof bins, low_text(), 65536);
	for (int i = 0; i < 65; i++)
		regions[i] = region(counters[i], sizeof counters[i], 0x10000 + 64 * i, 65536);
	tell("of_64", sprofil(regions, 64, NULL, 0));
	sprofil(&good, 1, NULL, 0);
	errno = 0;
	tell("of_65", sprofil(regions, 65, NULL, 0));
	tell("errno", errno);
	/* 33 holes in one that covers them all: 33 + 34 ranges. */
	regions[0] = region(more_bins, sizeof more_bins, 0x10000, 65536);
	for (int i = 1; i < 34; i++)
		regions[i] = region(counters[i], sizeof counters[i], 0x10000 + 64 * i, 65536);
	errno = 0;
	tell("flattened", sprofil(regions, 34, NULL, 0));
	tell("errno_flattened", errno);
	errno = 0;
	tell("flags", sprofil(&good, 1, NULL, 4));
	tell("errno_flags", errno);
	errno = 0;
	tell("negative", sprofil(&good, -1, NULL, 0));
	tell("errno_negative", errno);
	double before = ticks(bins, BINS);
	burn_low(0.3);
	stop();
	tell("counted", ticks(bins, BINS) - before);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "widths") == 0 && argc > 2)
		widths(atoi(argv[2]));
	else if (strcmp(what, "saturate") == 0)
		saturate();
	else if (strcmp(what, "overlap") == 0)
		overlap();
	else if (strcmp(what, "rest") == 0)
		rest();
	else if (strcmp(what, "below") == 0)
		below();
	else if (strcmp(what, "switches") == 0)
		switches();
	else if (strcmp(what, "second") == 0)
		second();
	else if (strcmp(what, "too_many") == 0)
		too_many();
	else
		return 2;
	return 0;
}
