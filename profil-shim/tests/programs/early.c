/* A library whose constructor is profiled. */
#include "profil.h"

#include <stdio.h>

static unsigned short buffer[16];

__attribute__((constructor)) static void start(void)
{
	struct itimerval timer;
	int result = profil(buffer, sizeof buffer, 0, 65536);
	getitimer(ITIMER_PROF, &timer);
	printf("early: %d %ld\n", result, (long)timer.it_interval.tv_usec);
}
