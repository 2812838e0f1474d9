/* Maps a file as code so often that the kernel has no room to tell of it all, and then runs code of a library that it has
 * loaded in the middle of that. Arguments: the library, CPU seconds, mappings. */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "target.h"

static void map(int file, long times)
{
	for (long i = 0; i < times; i++) {
		void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
		/* Neighbours of one file and protection would become one mapping, and there may be only 65,530 of them. */
		if (code == MAP_FAILED || munmap(code, 4096))
			exit(4);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	int file = open(argv[0], O_RDONLY);
	await_go();
	map(file, atol(argv[3]) / 2);
	void *library = dlopen(argv[1], RTLD_NOW);
	void (*function)(double) = library ? (void (*)(double))dlsym(library, "late_function") : NULL;
	if (!function)
		return 3;
	map(file, atol(argv[3]) / 2);
	double begin = PROCESS_SECONDS();
	function(atof(argv[2]));
	tell("after", PROCESS_SECONDS() - begin);
	return 0;
}
