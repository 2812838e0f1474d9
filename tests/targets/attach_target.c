/* A program that knows nothing of profil: it computes, and does what the suite writes into `command`. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define COUNTERS 32768
#define PAGE 4096

__attribute__((aligned(PAGE))) unsigned short buf[COUNTERS];
volatile int command;
volatile unsigned argument;
volatile unsigned long rounds, interrupted, neighbours, sum_before, child;
volatile unsigned sink;

#define BODY                                                                                                          \
    unsigned x = n;                                                                                                   \
    for (unsigned i = 0; i < n; i++) {                                                                                \
        x = x * 1664525u + 1013904223u;                                                                               \
        sink = x;                                                                                                     \
    }

__attribute__((noinline)) void hot(unsigned n) { BODY }
/* Lies between two functions that run, and never runs: its bins are nobody's. */
__attribute__((noinline)) void spacer(unsigned n) { BODY }
__attribute__((noinline)) void cold(unsigned n) { BODY }

/* Counts into the bins of `spacer` as fast as it can. */
__attribute__((noinline)) void count_beside(unsigned n)
{
    volatile unsigned short *bin = &buf[((char *)spacer - (char *)hot) / 2];
    for (unsigned i = 0; i < n; i++) {
        ++*bin;
        /* Else the CPU reads its own last store, and never sees that another one has put an old value there. */
        __sync_synchronize();
    }
    neighbours += n;
}

static void *page(int protection, int flags)
{
    return mmap(NULL, 2 * PAGE, protection, flags | MAP_ANONYMOUS, -1, 0);
}

/* Memory whose faults this process says to serve, and never does. */
static void *served_by_user_space(char *start)
{
    struct uffdio_api api = {.api = UFFD_API};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_register range = {{(unsigned long)start, 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
        return NULL;
    return start;
}

static unsigned long sum(void)
{
    unsigned long total = 0;
    for (int i = 0; i < COUNTERS; i++)
        total += buf[i];
    return total;
}

static void obey(char **argv)
{
    switch (command) {
    case 'c':
        sum_before = sum();
        memset(buf, 0, sizeof buf);
        break;
    case 'f':
        for (int i = 0; i < COUNTERS; i++)
            buf[i] = (unsigned short)argument;
        break;
    case 'r':
        mprotect(buf, sizeof buf, PROT_READ);
        break;
    case 'u':
        munmap(buf, sizeof buf);
        break;
    case 'm':
        mmap(buf, sizeof buf, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case 'v':
        mmap(buf, sizeof buf, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        served_by_user_space((char *)buf);
        break;
    case 'b':
        count_beside(argument);
        break;
    case 's':
        for (unsigned i = 0; i < argument; i++) {
            struct timespec moment = {0, 100000};
            hot(20000);
            if (nanosleep(&moment, NULL) && errno == EINTR)
                interrupted++;
        }
        break;
    case 'k':
        child = fork();
        while (!child)
            pause();
        break;
    case 'e':
        execv(argv[1], argv + 1);
        _exit(9);
    }
    command = 0;
}

int main(int argc, char **argv)
{
    char *half = page(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    (void)argc;
    munmap(half + PAGE, PAGE);
    printf("buf=%p command=%p argument=%p rounds=%p interrupted=%p neighbours=%p sum_before=%p sink=%p hot=%p spacer=%p "
           "cold=%p child=%p half=%p shared=%p readonly=%p served=%p\n",
           (void *)buf, (void *)&command, (void *)&argument, (void *)&rounds, (void *)&interrupted, (void *)&neighbours,
           (void *)&sum_before, (void *)&sink, (void *)hot, (void *)spacer, (void *)cold, (void *)&child, (void *)half,
           page(PROT_READ | PROT_WRITE, MAP_SHARED), page(PROT_READ, MAP_PRIVATE), served_by_user_space(page(PROT_READ | PROT_WRITE, MAP_PRIVATE)));
    fflush(stdout);
    for (;; rounds++) {
        hot(60000);
        cold(30000);
        if (command)
            obey(argv);
    }
}
