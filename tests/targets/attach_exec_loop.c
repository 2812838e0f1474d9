/* Executes itself as fast as it can; its buffer is at the same address in each image, and must be zero there. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((aligned(4096))) unsigned short buf[32768];

int main(int argc, char **argv)
{
    (void)argc;
    volatile unsigned work = 0;
    if (!strcmp(argv[1], "first")) {
        printf("buf=%p text=%p\n", (void *)buf, (void *)main);
        fflush(stdout);
        argv[1] = "next";
    }
    for (unsigned i = 0; i < 20000; i++)
        work += i;
    for (unsigned i = 0; i < sizeof buf / sizeof *buf; i++)
        if (buf[i])
            return 3;
    execv("/proc/self/exe", argv);
    return 9;
}
