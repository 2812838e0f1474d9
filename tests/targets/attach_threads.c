/* Two threads that compute, each in a function of its own. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((aligned(4096))) unsigned short buf[32768];
volatile unsigned one, two;

__attribute__((noinline)) void *first(void *unused)
{
    for (unsigned x = 1;; x = x * 1664525u + 1013904223u)
        one = x;
    return unused;
}

__attribute__((noinline)) void *second(void *unused)
{
    for (unsigned x = 1;; x = x * 22695477u + 1u)
        two = x;
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, first, NULL);
    pthread_create(&threads[1], NULL, second, NULL);
    printf("buf=%p hot=%p\n", (void *)buf, (void *)(first < second ? first : second));
    fflush(stdout);
    for (;;)
        pause();
}
