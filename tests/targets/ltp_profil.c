/* What LTP's profil01 checks: an alarm ends a loop, and the counters around its pc are not all zero. */
#include "calls.h"

#define AROUND (16 * 1024)

static volatile sig_atomic_t rang;

static void ring(int number)
{
	(void)number;
	rang = 1;
}

static NOINLINE size_t pc_of_caller(void) { return (size_t)__builtin_return_address(0); }

int main(void)
{
	size_t pc = pc_of_caller();
	signal(SIGALRM, ring);
	tell("on", profil(bins, sizeof bins, pc - AROUND, 131072));
	alarm(5);
	double begin = THREAD_SECONDS();
	while (!rang)
		;
	tell("cpu", THREAD_SECONDS() - begin);
	tell("off", profil(no_buffer, 0, 0, 0));
	unsigned first = BINS, last = 0;
	for (unsigned i = 0; i < BINS; i++) {
		if (!bins[i])
			continue;
		first = first < i ? first : i;
		last = i;
	}
	tell("counted", ticks(bins, BINS));
	/* A counter for each byte of text, of which the even ones are used. */
	tell("from_pc", first < BINS ? (double)first - AROUND : 1e9);
	tell("to_pc", (double)last - AROUND);
	return 0;
}
