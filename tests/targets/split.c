/* A program that calls profil(3), as in the README: 70 and 30 percent of its time in two functions. */
#include "target.h"

/* glibc declares the buffer as one that is never NULL, and yet takes NULL to turn profiling off. */
int off(unsigned short *buf, size_t size, size_t offset, unsigned scale) __asm__("profil");

static unsigned short bins[32768];

static __attribute__((noinline, noclone, aligned(4096))) void hot(void) { LOOP(700000); }
static __attribute__((noinline, noclone, aligned(4096))) void cold(void) { LOOP(300000); }

int main(void)
{
	/* 65536 / 32 * 2: 4,096 bytes of text for each bin. */
	if (profil(bins, sizeof bins, (size_t)hot, 32))
		return 1;
	double end = THREAD_SECONDS() + 1;
	while (THREAD_SECONDS() < end) {
		hot();
		cold();
	}
	if (off(NULL, 0, 0, 0))
		return 1;
	size_t other = ((size_t)cold - (size_t)hot) / 4096;
	printf("%u ticks in hot, %u in cold\n", bins[0], bins[other]);
	return bins[0] <= bins[other];
}
