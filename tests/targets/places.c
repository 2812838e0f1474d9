/* Ticks at many different pcs: a long run of single-byte instructions. Argument: CPU seconds. */
#include "target.h"

static NOINLINE void many_places(void)
{
	__asm__ volatile(".rept 20000\n\tnop\n\t.endr");
}

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1;
	await_go();
	double end = THREAD_SECONDS() + wanted;
	while (THREAD_SECONDS() < end)
		for (int i = 0; i < 100; i++)
			many_places();
	tell("cpu", PROCESS_SECONDS());
	return 0;
}
