/* A process whose first thread ends at once; another one computes. */
#include <pthread.h>
#include <stdio.h>

__attribute__((aligned(4096))) unsigned short buf[32768];
volatile unsigned sink;

static void *compute(void *unused)
{
    for (unsigned x = 1;; x = x * 1664525u + 1013904223u)
        sink = x;
    return unused;
}

int main(void)
{
    pthread_t thread;
    printf("buf=%p\n", (void *)buf);
    fflush(stdout);
    pthread_create(&thread, NULL, compute, NULL);
    pthread_exit(NULL);
}
