/* What the examples of the manual are about: a busy program with an array of bins that it may be given ticks in. */
#include "target.h"

__attribute__((aligned(4096))) unsigned short buf[32768];

NOINLINE void hot(void) { LOOP(700000); }
NOINLINE void cold(void) { LOOP(300000); }

int main(int argc, char **argv)
{
	double end = THREAD_SECONDS() + (argc > 1 ? atof(argv[1]) : 0.5);

	await_go();
	while (THREAD_SECONDS() < end) {
		hot();
		cold();
	}
	/* The linker may drop what nobody names. */
	return buf[0] != 0;
}
