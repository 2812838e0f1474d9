/* Programs that profile themselves or wait a lot. Argument: what; then CPU seconds. */
#include <sys/time.h>
#include "target.h"

static volatile long handled;

static void on_prof(int number)
{
	(void)number;
	handled = handled + 1;
}

/* CPU time by its own SIGPROF: what a neighbour's profile consists of. */
static void own_timer(double cpu_seconds)
{
	struct itimerval every = {{0, 4000}, {0, 4000}};
	struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART};
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
	burn(cpu_seconds);
}

/* glibc's profil(): its own counts, of the text from burn on. */
static void own_profil(double cpu_seconds)
{
	static unsigned short bins[1 << 15];
	profil(bins, sizeof bins, (size_t)burn & ~0xfffUL, 65536);
	burn(cpu_seconds);
	profil(bins, 0, 0, 0);
	for (unsigned i = 0; i < sizeof bins / sizeof *bins; i++)
		handled += bins[i];
}

static NOINLINE void *busy(void *unused)
{
	burn(*(double *)unused);
	return NULL;
}

/* Calls that a signal would interrupt, beside a busy thread. */
static void waits(double cpu_seconds)
{
	long interrupted = 0;
	int pipes[2];
	pthread_t thread;
	if (pipe(pipes))
		abort();
	pthread_create(&thread, NULL, busy, &cpu_seconds);
	for (int i = 0; i < 200; i++) {
		interrupted += interrupted_waits(pipes);
		burn(0.0005);
	}
	pthread_join(thread, NULL);
	tell("interrupted", interrupted);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	double cpu_seconds = atof(argv[2]);
	await_go();
	double begin = PROCESS_SECONDS();
	if (strcmp(argv[1], "timer") == 0)
		own_timer(cpu_seconds);
	else if (strcmp(argv[1], "profil") == 0)
		own_profil(cpu_seconds);
	else if (strcmp(argv[1], "waits") == 0)
		waits(cpu_seconds);
	else
		burn(cpu_seconds);
	double used = PROCESS_SECONDS() - begin;
	tell("handled", handled);
	tell("cpu", used);
	if (argc > 3) { /* who started us wants a look while we live */
		puts("done");
		fflush(stdout);
		await_line();
	}
	return 0;
}
