/* Loads a library after the word to go on, and runs a function of it. Arguments: path, CPU seconds. */
#include <dlfcn.h>
#include "target.h"

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	await_go();
	void *library = dlopen(argv[1], RTLD_NOW);
	void (*function)(double) = library ? (void (*)(double))dlsym(library, "late_function") : NULL;
	if (!function)
		return 3;
	function(atof(argv[2]));
	tell("cpu", PROCESS_SECONDS());
	return 0;
}
