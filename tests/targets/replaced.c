/* Loads one library after the other at the same address, again and again. Arguments: two paths, CPU seconds of each turn,
 * turns. */
#include <dlfcn.h>
#include "target.h"

int main(int argc, char **argv)
{
	if (argc < 5)
		return 2;
	await_go();
	double begin = PROCESS_SECONDS(), used[2] = {0};
	void *place = NULL;
	int moved = 0;
	for (int turn = 0; turn < atoi(argv[4]); turn++) {
		void *library = dlopen(argv[1 + turn % 2], RTLD_NOW);
		double (*function)(double) = library ? (double (*)(double))dlsym(library, "turn_of_this") : NULL;
		if (!function)
			return 3;
		moved += place && place != (void *)function;
		place = (void *)function;
		used[turn % 2] += function(atof(argv[3]));
		dlclose(library);
	}
	tell("moved", moved);
	tell("first", used[0]);
	tell("second", used[1]);
	tell("cpu", PROCESS_SECONDS() - begin);
	return 0;
}
