/* A buffer that is whole pages, which the kernel counts in itself. Argument: what. */
#include <sys/mman.h>
#include "calls.h"

static unsigned short *buffer;

static int on_pages(void) { return profil(buffer, sizeof bins, low_text(), fine_scale()); }

static void make_buffer(void)
{
	buffer = mmap(NULL, sizeof bins, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		exit(8);
}

/* Whether the pages of the buffer are shared, as only the kernel's array is. */
static int is_shared(const void *place)
{
	char line[512], access[8] = "";
	unsigned long low, high;
	FILE *maps = fopen("/proc/self/maps", "r");
	int shared = -1;
	while (fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx %7s", &low, &high, access) == 3 && low <= (size_t)place && (size_t)place < high)
			shared = access[3] == 's';
	fclose(maps);
	return shared;
}

/* Counts from before, while it is on, and after. */
static void life(void)
{
	for (unsigned i = 0; i < BINS; i++)
		buffer[i] = 7;
	tell("on", on_pages());
	tell("shared_on", is_shared(buffer));
	double begin = THREAD_SECONDS();
	burn_in(seventy, 0.5);
	tell("off", off());
	tell("cpu", THREAD_SECONDS() - begin);
	tell("shared_off", is_shared(buffer));
	double sum = ticks(buffer, BINS);
	tell("counted", sum - 7.0 * BINS);
	burn_in(seventy, 0.3);
	tell("late", ticks(buffer, BINS) - sum);
	memset(buffer, 0, sizeof bins);
	on_pages();
	burn_in(seventy, 0.3);
	off();
	tell("again", ticks(buffer, BINS));
}

/* Looks at counters in a loop without a system call; who started us has stopped the service meanwhile. */
static void rising(void)
{
	on_pages();
	await_go();
	double risen = 0, last = 0;
	for (long i = 0; i < 20000 && risen < 50; i++) {
		seventy(300000);
		double sum = ticks(buffer, HOT_BYTES / 2) + ticks(buffer + HOT_BYTES / 2, HOT_BYTES / 2);
		risen += sum > last;
		last = sum;
	}
	tell("risen", risen);
	await_line();
	off();
	tell("counted", ticks(buffer, BINS));
}

/* As in all buffers, a counter wraps, and its neighbours do not notice. */
static void wrap(void)
{
	buffer[0] = 65530;
	buffer[1] = 5;
	profil(buffer, sizeof bins, low_text(), 2);
	burn_in(seventy, 0.3);
	off();
	tell("first", buffer[0]);
	tell("rest", ticks(buffer + 1, BINS - 1));
}

/* A child's buffer is its own. */
static void forks(void)
{
	on_pages();
	burn_in(seventy, 0.3);
	pid_t child = fork();
	if (child == 0) {
		tell("child_start", ticks(buffer, BINS));
		memset(buffer, 0, sizeof bins);
		burn_in(thirty, 0.2);
		tell("child_off", off());
		tell("child_shared", is_shared(buffer));
		tell("child_counted", ticks(buffer, BINS));
		exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	burn_in(thirty, 0.1);
	tell("off", off());
	tell("status", status);
	tell("shared", is_shared(buffer));
	tell("counted", ticks(buffer, BINS));
}

/* A second call, for a buffer that is no page of its own. */
static void replace(void)
{
	on_pages();
	burn_in(seventy, 0.2);
	tell("second", on());
	tell("shared", is_shared(buffer));
	double sum = ticks(buffer, BINS);
	tell("first", sum);
	burn_in(seventy, 0.3);
	off();
	tell("late", ticks(buffer, BINS) - sum);
	tell("next", ticks(bins, BINS));
	munmap(buffer, sizeof bins);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	make_buffer();
	if (strcmp(what, "life") == 0)
		life();
	else if (strcmp(what, "rising") == 0)
		rising();
	else if (strcmp(what, "wrap") == 0)
		wrap();
	else if (strcmp(what, "fork") == 0)
		forks();
	else if (strcmp(what, "replace") == 0)
		replace();
	else
		return 2;
	return 0;
}
