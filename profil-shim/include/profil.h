/*
 * profil.h - profil(3) and sprofil(3) of libprofil.so
 *
 * Link with -lprofil, or run an unchanged program with LD_PRELOAD=libprofil.so. A service counts, `profil run` or
 * `profil daemon`: at each tick of the CPU clock of the process, 100 in a second of its CPU time, the kernel adds one to
 * the counter that the pc belongs to. There is no signal and no timer. Without a service libc's own functions count.
 *
 * Environment, read when the library is loaded, and ignored by set-uid programs:
 *
 *   PROFIL_SOCKET      where the service listens; /run/profil.sock
 *   PROFIL_CONVENTION  bsd, linux, clix or glibc: which manual page profil(3) is read by; glibc
 *   PROFIL_HZ          ticks in a second of CPU time, 1 to 10000; 100
 *   PROFIL_ZEROCOPY    1: see below
 *   PROFIL_DEBUG       set: says on stderr when libc is asked, and why
 *
 * Both functions may be called in a signal handler, and are no cancellation points. They wait for the service for at
 * most ten seconds; turning profiling off then fails with ETIMEDOUT. When the call that turns it off has returned 0,
 * every tick before it is in the buffer and nothing is written there any more: the buffer may be freed.
 *
 * A longjmp(3) out of a handler that interrupted a call leaks its descriptor; calls go on working.
 *
 * A service counts in up to 4194304 counters for a call: a larger buffer, or more of them, is ENOMEM. So is what would take a
 * process over 64 MiB, or its user over 256. An undumpable process, see prctl(2), is left to libc.
 *
 * A service is trusted when its user is root or the effective user of the process.
 *
 * Fork: in the conventions bsd and clix a child is profiled too, into its own copy of the buffer; in linux and glibc it
 * is not. Children of vfork(2), posix_spawn(3), _Fork(3) and clone(2) are not, in any. exec(2) turns profiling off.
 *
 * Zero copy: with PROFIL_ZEROCOPY=1, a buffer of profil(3) that begins at a page and is a whole number of pages is
 * replaced by the kernel's own array until profiling is turned off: counts appear in it without being copied. Such a
 * buffer must be a mapping with nothing else in it, as mmap(2) gives. While profiling is on,
 *
 *   - madvise(MADV_DONTNEED) on it makes the next access a SIGBUS;
 *   - a child of clone(2) without CLONE_VM, or of _Fork(3), shares it with its parent (one of fork(2) does not);
 *   - it must stay mapped.
 *
 * Not served, because this library is not in them: programs that are linked statically, and those that are linked to
 * another libc than the GNU one. A program whose seccomp filter forbids socket(2) or connect(2) by an errno is left to
 * libc; one whose filter kills must not be run with the library.
 *
 * Programs built with -pg have their ticks counted in the same way, and written to gmon.out with the rate they were
 * counted at. GMON_OUT_PREFIX is heeded, and PROFDIR in the convention bsd.
 */
#ifndef PROFIL_H
#define PROFIL_H 1

#include <stddef.h>
#include <sys/time.h>

#ifdef __GLIBC__
/* The GNU C library has the same structure and constants. */
#include <sys/profil.h>
#define PROFIL_NOTHROW __THROW
#else
#define PROFIL_NOTHROW

#ifdef __cplusplus
extern "C" {
#endif

/* One buffer, and the text it stands for. */
struct prof {
	void *pr_base;          /* the buffer */
	size_t pr_size;         /* its size, bytes */
	size_t pr_off;          /* lowest profiled address */
	unsigned long pr_scale; /* 16.16 fixed point: 65536 is one counter for each 2 bytes of text, or 4 with PROF_UINT */
};

enum {
	PROF_USHORT = 0, /* counters are unsigned short */
	PROF_UINT = 1,   /* counters are unsigned int */
	PROF_FAST = 2    /* no effect */
};

/*
 * Counts into profcnt buffers at once, whose counters stop at their largest value; 0 of them turns profiling off.
 * The entry with pr_off 0 and pr_scale 2 takes the ticks that no other does. At most 256 entries. tvp, unless null,
 * is given the CPU time between two ticks. Returns 0, or -1 with errno set.
 */
extern int sprofil(struct prof *profp, int profcnt, struct timeval *tvp, unsigned int flags);

#ifdef __cplusplus
}
#endif
#endif /* __GLIBC__ */

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Counts into buf, bufsiz bytes of it, by the pc less offset times scale, which is 16.16 fixed point: 65536 is one
 * counter for each 2 bytes of text. What turns profiling off is up to the convention: a null buf (linux, glibc), a scale
 * of 0 (bsd), or of 0 or 1 (clix). A second call replaces the first. Counters wrap. Returns 0, or -1 with errno set.
 */
extern int profil(unsigned short *buf, size_t bufsiz, size_t offset, unsigned int scale) PROFIL_NOTHROW;

#ifdef __cplusplus
}
#endif

#undef PROFIL_NOTHROW
#endif /* PROFIL_H */
