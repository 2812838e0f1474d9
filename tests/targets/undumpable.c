/* A program that does not want to be looked into, before and while it is profiled. */
#include <sys/prctl.h>
#include "calls.h"

int main(void)
{
	tell("on_before", on());
	burn_in(seventy, 0.25);
	prctl(PR_SET_DUMPABLE, 0);
	tell("off_after", off());
	tell("counted_before", ticks(bins, BINS));
	memset(bins, 0, sizeof bins);
	tell("on", on());
	burn_in(seventy, 0.5);
	tell("off", off());
	tell("counted", ticks(bins, BINS));
	return 0;
}
