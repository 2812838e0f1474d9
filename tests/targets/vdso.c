/* Asks for the time, which the vdso answers without the kernel. Argument: CPU seconds. */
#include "target.h"

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1;
	await_go();
	double end = THREAD_SECONDS() + wanted;
	while (THREAD_SECONDS() < end)
		for (int i = 0; i < 20000; i++)
			WALL_SECONDS();
	tell("cpu", PROCESS_SECONDS());
	return 0;
}
