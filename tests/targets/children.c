/* Many short children, one after the other. Arguments: "fork" or a program to exec, how many, CPU seconds of each. */
#include "target.h"

static NOINLINE void short_life(double cpu_seconds) { burn(cpu_seconds); }

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int forks = strcmp(argv[1], "fork") == 0;
	long count = atol(argv[2]);
	await_go();
	for (long i = 0; i < count; i++) {
		/* vfork is what posix_spawn and shells use; fork gives children that stay what they were. */
		pid_t child = forks ? fork() : vfork();
		if (child == 0) {
			if (!forks) {
				execl(argv[1], "short", argv[3], NULL);
				_exit(3);
			}
			short_life(atof(argv[3]));
			_exit(0);
		}
		int status;
		waitpid(child, &status, 0);
		if (status)
			return 4;
	}
	tell("children", children_seconds());
	return 0;
}
