/* Does what its arguments say, one after another, and prints a line for each. */
#define _GNU_SOURCE
#include "profil.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* No call may leave another errno than this behind, unless it fails. */
#define ERRNO_BEFORE 77
#define PAGES_BYTES 8192

static unsigned short buffer[256];
static unsigned int wide[256];
static unsigned short *pages;

static void print_result(const char *what, int result)
{
	printf("%s: %d %d\n", what, result, errno);
	fflush(stdout);
}

static unsigned long number(char *text)
{
	return strtoul(text, NULL, 0);
}

static void *place(const char *name)
{
	if (strcmp(name, "buf") == 0)
		return buffer;
	if (strcmp(name, "pages") == 0)
		return pages;
	return NULL;
}

static int turn_on(void)
{
	return profil(buffer, sizeof buffer, 0x1000, 32768);
}

static void burn(void)
{
	struct timespec now;
	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while (now.tv_sec == 0 && now.tv_nsec < 300 * 1000 * 1000);
}

static int open_descriptors(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/fd");
	while (readdir(folder) != NULL)
		count++;
	closedir(folder);
	return count;
}

static int maps_have(const char *name)
{
	char line[512];
	int found = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps) != NULL)
		found += strstr(line, name) != NULL;
	fclose(maps);
	return found;
}

static volatile sig_atomic_t is_calling, nested;

static void call_in_handler(int signal)
{
	int before = errno;
	(void)signal;
	if (is_calling && turn_on() == 0)
		nested++;
	errno = before;
}

/* Calls in the main program and in a handler that interrupts the call, each time somewhere else. */
static void interrupt_calls(void)
{
	struct sigaction action = { .sa_handler = call_in_handler };
	struct itimerval once = { { 0, 0 }, { 0, 0 } };
	int failed = 0, calls = 0;
	sigaction(SIGALRM, &action, NULL);
	while (nested < 100) {
		calls++;
		once.it_value.tv_usec = 1 + (once.it_value.tv_usec + 17) % 301;
		errno = ERRNO_BEFORE;
		is_calling = 1;
		setitimer(ITIMER_REAL, &once, NULL);
		failed += turn_on() != 0 || errno != ERRNO_BEFORE;
		is_calling = 0;
	}
	printf("interrupt: %d %d\n", failed, calls + nested);
}

/* From here on socket(2) fails with EPERM. */
static void forbid_sockets(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof filter / sizeof *filter, filter };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		print_result("no-sockets", -1);
}

static void *write_to_first_descriptors(void *stop)
{
	while (!*(volatile int *)stop)
		for (int fd = 0; fd < 3; fd++)
			if (write(fd, "what is printed", 15) < 0)
				continue;
	return NULL;
}

/* Calls while another thread prints to descriptors that the program has closed. */
static void call_without_first_descriptors(void)
{
	pthread_t printer;
	int stop = 0, failed = 0, copy = fcntl(1, F_DUPFD, 10);
	close(0);
	close(1);
	close(2);
	pthread_create(&printer, NULL, write_to_first_descriptors, &stop);
	for (int call = 0; call < 200; call++)
		failed += turn_on() != 0;
	*(volatile int *)&stop = 1;
	pthread_join(printer, NULL);
	dup2(copy, 1);
	printf("close012: %d\n", failed);
}

static sigjmp_buf out_of_call;

static void leave_call(int signal)
{
	(void)signal;
	if (is_calling)
		siglongjmp(out_of_call, 1);
}

/* Leaves fifty calls from a handler, each time somewhere else, and then makes one. */
static void leave_calls(void)
{
	struct sigaction action = { .sa_handler = leave_call };
	struct itimerval once = { { 0, 0 }, { 0, 0 } };
	static volatile int left;
	sigaction(SIGALRM, &action, NULL);
	while (left < 50) {
		if (sigsetjmp(out_of_call, 1) == 0) {
			once.it_value.tv_usec = 1 + (once.it_value.tv_usec + 17) % 301;
			is_calling = 1;
			setitimer(ITIMER_REAL, &once, NULL);
			turn_on();
		} else {
			left++;
		}
		is_calling = 0;
	}
	errno = ERRNO_BEFORE;
	print_result("leave", turn_on());
}

static void *call_in_thread(void *failed)
{
	for (int i = 0; i < 100; i++)
		*(int *)failed += turn_on() != 0;
	return NULL;
}

static void call_in_threads(void)
{
	pthread_t threads[4];
	int failed[4] = { 0 };
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, call_in_thread, &failed[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("threads: %d\n", failed[0] + failed[1] + failed[2] + failed[3]);
}

/* In the child: true, and the arguments that follow are the child's. */
static int child_goes_on(void)
{
	int status;
	pid_t child;
	fflush(stdout);
	errno = ERRNO_BEFORE;
	child = fork();
	if (child == 0) {
		printf("child: %d\n", errno);
		return 1;
	}
	waitpid(child, &status, 0);
	printf("parent: %d\n", status);
	exit(status != 0);
}

__attribute__((noinline)) static void start_vforked(void)
{
	if (vfork() == 0)
		_exit(0);
}

static void call_sprofil(char **arguments)
{
	struct prof regions[300];
	struct timeval period = { -1, -1 };
	int count = atoi(arguments[0]), result;
	for (int i = 0; i < 300; i++) {
		regions[i].pr_base = wide + i % 256;
		regions[i].pr_size = 8 + i;
		regions[i].pr_off = 0x1000 * i;
		regions[i].pr_scale = 65536 - i;
	}
	errno = ERRNO_BEFORE;
	result = sprofil(regions, count, &period, number(arguments[1]));
	printf("sprofil: %d %d %ld.%06ld\n", result, errno, (long)period.tv_sec, (long)period.tv_usec);
}

int main(int argc, char **argv)
{
	/* What waits for ever is a test that fails. */
	struct rlimit seconds = { 30, 30 };
	setrlimit(RLIMIT_CPU, &seconds);
	pages = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages[1] = 5;
	for (int i = 1; i < argc; i++) {
		const char *what = argv[i];
		errno = ERRNO_BEFORE;
		if (strcmp(what, "profil") == 0) {
			int result = profil(place(argv[i + 1]), number(argv[i + 2]), number(argv[i + 3]), number(argv[i + 4]));
			print_result(what, result);
			i += 4;
		} else if (strcmp(what, "on") == 0) {
			print_result(what, turn_on());
		} else if (strcmp(what, "on-all") == 0) {
			/* To glibc a scale of 0 means that every pc is in the first bin. */
			print_result(what, profil(buffer, sizeof buffer, 0, 0));
		} else if (strcmp(what, "on-pages") == 0) {
			print_result(what, profil(pages, PAGES_BYTES, 0x1000, 32768));
		} else if (strcmp(what, "off") == 0) {
			print_result(what, profil(NULL, 0, 0, 0));
		} else if (strcmp(what, "sprofil") == 0) {
			call_sprofil(argv + i + 1);
			i += 2;
		} else if (strcmp(what, "sprofil-fault") == 0) {
			print_result(what, sprofil((struct prof *)16, 1, NULL, 0));
		} else if (strcmp(what, "where") == 0) {
			printf("where: %#lx %#lx %#lx\n", (unsigned long)buffer, (unsigned long)wide, (unsigned long)pages);
		} else if (strcmp(what, "first") == 0) {
			printf("first: %d %d %d\n", buffer[0], pages[0], pages[1]);
		} else if (strcmp(what, "await") == 0) {
			/* No system call: what appears was written by somebody else, or the kernel. */
			while (*(volatile unsigned short *)pages != number(argv[i + 1]))
				;
			printf("await: %d\n", pages[0]);
			i += 1;
		} else if (strcmp(what, "store") == 0) {
			pages[0] = number(argv[++i]);
		} else if (strcmp(what, "mapped") == 0) {
			printf("mapped: %d\n", maps_have("memfd:"));
		} else if (strcmp(what, "burn") == 0) {
			burn();
		} else if (strcmp(what, "counted") == 0) {
			int sum = 0;
			for (int bin = 0; bin < 256; bin++)
				sum += buffer[bin];
			printf("counted: %d\n", sum > 0);
		} else if (strcmp(what, "timer") == 0) {
			struct itimerval timer;
			getitimer(ITIMER_PROF, &timer);
			printf("timer: %ld\n", (long)timer.it_interval.tv_usec);
		} else if (strcmp(what, "fork") == 0) {
			if (!child_goes_on())
				return 0;
		} else if (strcmp(what, "vfork") == 0) {
			start_vforked();
		} else if (strcmp(what, "close012") == 0) {
			call_without_first_descriptors();
		} else if (strcmp(what, "thousand") == 0) {
			int before = open_descriptors(), failed = 0;
			for (int call = 0; call < 500; call++)
				failed += (turn_on() != 0) + (profil(NULL, 0, 0, 0) != 0);
			printf("thousand: %d %d\n", failed, open_descriptors() - before);
		} else if (strcmp(what, "unlink") == 0) {
			unlink(argv[++i]);
		} else if (strcmp(what, "interrupt") == 0) {
			interrupt_calls();
		} else if (strcmp(what, "no-sockets") == 0) {
			forbid_sockets();
		} else if (strcmp(what, "leave") == 0) {
			leave_calls();
		} else if (strcmp(what, "threads") == 0) {
			call_in_threads();
		} else if (strcmp(what, "cancelled") == 0) {
			/* A pending cancellation does not end the call. */
			pthread_cancel(pthread_self());
			int result = turn_on();
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
			print_result(what, result);
		} else {
			printf("what is %s?\n", what);
			return 2;
		}
		fflush(stdout);
	}
	return 0;
}
