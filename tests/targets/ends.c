/* Ends in some way. Arguments: CPU seconds; then "exit" STATUS, "kill" SIGNAL, or "run" (until it is stopped). */
#include "target.h"

static NOINLINE void before_the_end(double cpu_seconds) { burn(cpu_seconds); }

static void on_term(int number)
{
	static const char text[] = "terminated 1\n";
	if (write(1, text, sizeof text - 1) < 0)
		_exit(8);
	_exit(number);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	signal(SIGTERM, on_term);
	await_go();
	before_the_end(atof(argv[1]));
	if (strcmp(argv[2], "exit") == 0)
		return atoi(argv[3]);
	if (strcmp(argv[2], "kill") == 0)
		raise(atoi(argv[3]));
	for (;;)
		before_the_end(0.01);
}
