/* Code that no file stands behind, named by a perf map as JITs write one. Argument: CPU seconds. */
#include <sys/mman.h>
#include "target.h"

int main(int argc, char **argv)
{
	/* mov $2000000,%eax; 1: dec %eax; jnz 1b; ret */
	static const unsigned char code[] = {0xb8, 0x80, 0x84, 0x1e, 0x00, 0xff, 0xc8, 0x75, 0xfc, 0xc3};
	double wanted = argc > 1 ? atof(argv[1]) : 1;
	await_go();
	unsigned char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memcpy(made, code, sizeof code);
	mprotect(made, 4096, PROT_READ | PROT_EXEC);
	char name[64];
	snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
	FILE *map = fopen(name, "w");
	fprintf(map, "%lx %zx made_at_run_time\n", (unsigned long)made, sizeof code);
	fclose(map);
	double end = THREAD_SECONDS() + wanted;
	while (THREAD_SECONDS() < end)
		((void (*)(void))made)();
	tell("cpu", PROCESS_SECONDS());
	if (argc > 2)
		unlink(name);
	return 0;
}
