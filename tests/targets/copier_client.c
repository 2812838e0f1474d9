// A client of the service that obeys orders from its standard input, some of them hostile.
// Prints `buffer ADDRESS BYTES`, and `done` or `failed ERRNO` after each order.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 16, PAGE = 4096 };

static unsigned char *buffer;
static const char *served;
static volatile pid_t reader, locker;

// Maps a file over the buffer.
static int over(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(buffer, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
    return at == MAP_FAILED ? errno : 0;
}

// Has pages of the buffer served by a userfaultfd that nobody reads.
static int fault(void)
{
    int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {
        .range = {(uintptr_t)buffer, PAGES * PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || madvise(buffer, PAGES * PAGE, MADV_DONTNEED)
        || ioctl(fd, UFFDIO_REGISTER, &range))
        return errno;
    return 0;
}

// A read through the memory file holds the maps locked for reading until the page is there.
static void *read_served(void *at)
{
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    char byte;
    reader = gettid();
    if (pread(fd, &byte, 1, (off_t)(uintptr_t)at) < 0)
        perror("pread");
    return NULL;
}

// One who wants to change the maps waits for it, and whoever wants to read them then waits for him.
static void *change_maps(void *at)
{
    (void)at;
    locker = gettid();
    mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return NULL;
}

// Waits until a thread waits in the kernel, for a page or for the maps.
static int until_blocked(volatile pid_t *tid)
{
    for (int tries = 0; tries < 10000; tries++) {
        char path[64], line[256] = "";
        usleep(1000);
        snprintf(path, sizeof path, "/proc/self/task/%d/wchan", *tid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
        close(fd);
        // The names of functions, which differ between kernels.
        if (got > 1 && (strstr(line, "wait") || strstr(line, "rwsem") || strstr(line, "mmap")))
            return 0;
    }
    return ETIME;
}

static int lock_maps(void)
{
    int fd = open(served, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    pthread_t first, second;
    if (at == MAP_FAILED)
        return errno;
    // Made before the maps are locked, which starting a thread needs.
    pthread_create(&first, NULL, read_served, at);
    int failed = until_blocked(&reader);
    pthread_attr_t small;
    static char stack[64 * 1024] __attribute__((aligned(4096)));
    pthread_attr_init(&small);
    pthread_attr_setstack(&small, stack, sizeof stack);
    pthread_create(&second, &small, change_maps, NULL);
    return failed ? failed : until_blocked(&locker);
}

int main(int argc, char **argv)
{
    static char line[32], out[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    served = argc > 1 ? argv[1] : "";
    buffer = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer == MAP_FAILED)
        return 1;
    memset(buffer, 0, PAGES * PAGE);
    printf("buffer %lu %d\n", (unsigned long)buffer, PAGES * PAGE);
    fflush(stdout);
    while (read(0, line, 1) == 1) {
        int failed = line[0] == 'o' ? over(served) : line[0] == 'u' ? fault() : line[0] == 'l' ? lock_maps() : EINVAL;
        if (failed)
            printf("failed %d\n", failed);
        else
            printf("done\n");
        fflush(stdout);
    }
    return 0;
}
