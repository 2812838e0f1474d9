/* Three functions that use 60, 30 and 10 percent of the time; how much really, it measures. Argument: CPU seconds. */
#include "target.h"

static NOINLINE void sixty(void) { LOOP(600000); }
static NOINLINE void thirty(void) { LOOP(300000); }
static NOINLINE void ten(void) { LOOP(100000); }

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1, used[3] = {0};
	void (*functions[3])(void) = {sixty, thirty, ten};

	await_go();
	double begin = THREAD_SECONDS();
	while (THREAD_SECONDS() - begin < wanted) {
		for (int i = 0; i < 3; i++) {
			double before = THREAD_SECONDS();
			functions[i]();
			used[i] += THREAD_SECONDS() - before;
		}
	}
	tell("all", THREAD_SECONDS() - begin);
	tell("sixty", used[0]);
	tell("thirty", used[1]);
	tell("ten", used[2]);
	return 0;
}
