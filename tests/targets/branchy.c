/*
 * An interpreter whose branches go against what a compiler guesses, for tools that rebuild a program from its profile.
 * Sixteen copies of step(), below, each in a function of its own: the path that is always taken comes last in each, and
 * the others lie between. Argument: rounds. Prints the CPU seconds that it took, and a sum that no optimisation may change.
 */
#ifndef STEP
#include "target.h"

static unsigned long trouble;

/* What nobody calls often, inlined everywhere: it moves the code that is used apart. */
#define RARE(n) (trouble = trouble * 31 + (n), trouble ^= trouble >> 7, trouble += state << 3, state ^= trouble >> 5)

/* Small, used everywhere, and too large to be inlined by guessing. */
static unsigned mix(unsigned state, unsigned kind)
{
	switch (kind) {
	case 0:
		return state * 2654435761u + 1;
	case 1:
		state ^= state << 13;
		state ^= state >> 17;
		return state ^ state << 5;
	case 2:
		for (unsigned i = 0; i < (state & 15); i++)
			state = state * 1664525u + 1013904223u + i;
		return state;
	case 3:
		for (unsigned i = state & 7; i > 0; i--)
			state = (state >> 1) ^ (-(state & 1u) & 0xedb88320u);
		return state;
	case 4:
		return state / 7 + state % 11 * 13 + (state >> 3) / 17;
	case 5:
		state = (state >> 16 ^ state) * 0x45d9f3bu;
		state = (state >> 16 ^ state) * 0x45d9f3bu;
		return state >> 16 ^ state;
	default:
		return state ^ kind << 24;
	}
}

#define STEP step0
#include "branchy.c"
#define STEP step1
#include "branchy.c"
#define STEP step2
#include "branchy.c"
#define STEP step3
#include "branchy.c"
#define STEP step4
#include "branchy.c"
#define STEP step5
#include "branchy.c"
#define STEP step6
#include "branchy.c"
#define STEP step7
#include "branchy.c"

int main(int argc, char **argv)
{
	static unsigned (*const steps[])(unsigned, const unsigned char *) = {
		step0, step1, step2, step3, step4, step5, step6, step7,
	};
	long rounds = argc > 1 ? atol(argv[1]) : 1000000;
	unsigned char kinds[256];
	unsigned state = 1;

	/* As far as the compiler knows, all kinds are alike. */
	for (int i = 0; i < 256; i++)
		kinds[i] = 1;
	double begin = PROCESS_SECONDS();
	for (long round = 0; round < rounds; round++)
		state = steps[round & 7](state, &kinds[round & 127]);
	tell("cpu", PROCESS_SECONDS() - begin);
	printf("sum %u %lu\n", state, trouble);
	return 0;
}

#else

static NOINLINE unsigned STEP(unsigned state, const unsigned char *kinds)
{
	for (int i = 0; i < 16; i++) {
		unsigned kind = kinds[i];
		if (kind != 1) {
			RARE(1); RARE(2); RARE(3); RARE(4);
			if (kind == 2) {
				RARE(5); RARE(6); RARE(7); RARE(8);
			} else if (kind == 3) {
				RARE(9); RARE(10); RARE(11); RARE(12);
			}
		}
		if (kind > 6) {
			RARE(13); RARE(14); RARE(15); RARE(16);
			state = mix(state, 3);
		}
		state = mix(state, kind);
		if ((state & 0xffff) == 0x1234) {
			RARE(17); RARE(18); RARE(19); RARE(20);
			state = mix(state, 2);
		}
		if (kind == 0) {
			RARE(21); RARE(22); RARE(23); RARE(24);
			continue;
		}
		if (state % 1024 == 1023) {
			RARE(25); RARE(26); RARE(27); RARE(28);
			state = mix(state, kind + 4);
		}
	}
	return state;
}
#undef STEP

#endif
