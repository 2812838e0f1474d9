/* The program of its own that short-lived children exec. Argument: CPU seconds. */
#include "target.h"

static NOINLINE void short_exec(double cpu_seconds) { burn(cpu_seconds); }

int main(int argc, char **argv)
{
	short_exec(argc > 1 ? atof(argv[1]) : 0.005);
	return 0;
}
