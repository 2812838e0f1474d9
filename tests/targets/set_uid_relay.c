/* A set-uid program that passes its input on to standard error, as many do with words that they do not know. Tells the
 * address of a buffer that is nobody's business, that of its text, and how many bytes of the buffer were changed. */
#include "target.h"

static unsigned char secret[1 << 16] __attribute__((aligned(4096)));

int main(void)
{
	char input[4096];
	printf("buffer %lu\ntext %lu\n", (unsigned long)secret, (unsigned long)burn & ~0xffful);
	fflush(stdout);
	ssize_t length = read(0, input, sizeof input);
	if (length > 0 && write(2, input, length) != length)
		return 1;
	burn(0.15);
	int touched = 0;
	for (size_t i = 0; i < sizeof secret; i++)
		touched += secret[i] != 0;
	printf("touched %d\n", touched);
	return 0;
}
