/* Two lines of one function use 75 and 25 percent of the time. Argument: CPU seconds. */
#include "target.h"

NOINLINE void two_lines(void)
{
	LOOP(300000);
	LOOP(100000);
}

static inline __attribute__((always_inline)) void inlined_loop(void)
{
	LOOP(200000);
}

NOINLINE void surrounding(void)
{
	inlined_loop();
}

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1;

	await_go();
	double begin = THREAD_SECONDS();
	while (THREAD_SECONDS() - begin < wanted) {
		two_lines();
		surrounding();
	}
	tell("all", THREAD_SECONDS() - begin);
	return 0;
}
