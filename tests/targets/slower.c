/* Rounds of equal length, in which FACTOR says how long `changed` takes and `rest` fills up what is left; the others never
 * change. How much each really took, it measures. Argument: CPU seconds. */
#include "target.h"

#ifndef FACTOR
#define FACTOR 1
#endif

static NOINLINE void changed(void) { LOOP(200000L * FACTOR); }
static NOINLINE void rest(void) { LOOP(1000000L - 200000L * FACTOR); }
static NOINLINE void steady_three(void) { LOOP(300000L); }
static NOINLINE void steady_two(void) { LOOP(200000L); }

int main(int argc, char **argv)
{
	double wanted = argc > 1 ? atof(argv[1]) : 1, used[4] = {0};
	void (*functions[4])(void) = {changed, rest, steady_three, steady_two};

	double begin = THREAD_SECONDS();
	while (THREAD_SECONDS() - begin < wanted) {
		for (int i = 0; i < 4; i++) {
			double before = THREAD_SECONDS();
			functions[i]();
			used[i] += THREAD_SECONDS() - before;
		}
	}
	tell("all", THREAD_SECONDS() - begin);
	tell("changed", used[0]);
	tell("rest", used[1]);
	tell("steady_three", used[2]);
	tell("steady_two", used[3]);
	return 0;
}
