/* A function of two pieces, each with a loop: what the compiler holds for unlikely lies elsewhere. Argument: CPU seconds. */
#include "target.h"

static __attribute__((cold, noinline)) void unlikely(void)
{
	__asm__ volatile("");
}

NOINLINE void split(int rare)
{
	if (rare) {
		unlikely();
		LOOP(200000);
		unlikely();
		return;
	}
	LOOP(100000);
}

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1;

	await_go();
	double begin = THREAD_SECONDS();
	for (int round = 0; THREAD_SECONDS() - begin < wanted; round++)
		split(round % 2);
	return 0;
}
