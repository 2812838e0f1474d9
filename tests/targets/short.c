/* The program of its own that short-lived children exec. The last argument: CPU seconds. */
#include "target.h"

static NOINLINE void short_exec(double cpu_seconds) { burn(cpu_seconds); }

int main(int argc, char **argv)
{
	short_exec(atof(argv[argc - 1]));
	return 0;
}
