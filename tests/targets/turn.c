/* A library that is loaded in turn with another build of itself, whose function has another NAME. */
#include "target.h"

static NOINLINE double NAME(double cpu_seconds)
{
	double begin = THREAD_SECONDS(), now;
	do
		LOOP(100000);
	while ((now = THREAD_SECONDS()) < begin + cpu_seconds);
	return now - begin;
}

double turn_of_this(double cpu_seconds) { return NAME(cpu_seconds); }
