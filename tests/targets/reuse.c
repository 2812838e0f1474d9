/* Two children, one after the other, with the same PID. Arguments: CPU seconds of each; "apart" waits in between. */
#include <linux/sched.h>
#include <stdint.h>
#include "target.h"

static NOINLINE void in_first(double cpu_seconds)
{
	double end = THREAD_SECONDS() + cpu_seconds;
	while (THREAD_SECONDS() < end)
		LOOP(100000);
}

static NOINLINE void in_second(double cpu_seconds)
{
	double end = THREAD_SECONDS() + cpu_seconds;
	while (THREAD_SECONDS() < end)
		LOOP(100000);
}

static pid_t fork_as(pid_t wanted)
{
	struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&wanted, .set_tid_size = 1};
	return syscall(SYS_clone3, &arguments, sizeof arguments);
}

int main(int argc, char **argv)
{
	double cpu_seconds = argc > 1 ? atof(argv[1]) : 0.5;
	int pipes[2], status;
	if (pipe(pipes))
		return 2;

	pid_t first = fork();
	if (first == 0) {
		char byte;
		close(pipes[1]);
		while (read(pipes[0], &byte, 1) > 0)
			;
		in_first(cpu_seconds);
		_exit(0);
	}
	if (argc > 2) { /* who started us wants the PID before we go on */
		puts("ready");
		tell("first", first);
		await_line();
	}
	close(pipes[0]);
	close(pipes[1]);
	waitpid(first, &status, 0);

	pid_t second = fork_as(first);
	if (second == 0) {
		in_second(cpu_seconds);
		_exit(0);
	}
	waitpid(second, &status, 0);
	tell("first", first);
	tell("second", second);
	return second < 0;
}
