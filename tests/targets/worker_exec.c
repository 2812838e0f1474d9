/* Only a thread with a name of its own uses CPU time, and then runs another program. Arguments: CPU seconds; the program
 * with its arguments. */
#include <sys/prctl.h>
#include "target.h"

static char **words;

static NOINLINE void *in_worker(void *unused)
{
	prctl(PR_SET_NAME, "a-worker");
	burn(atof(words[1]));
	execv(words[2], words + 2);
	exit(3);
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t worker;
	if (argc < 3)
		return 2;
	words = argv;
	await_go();
	unsetenv("AWAIT_GO"); /* the program is not to wait again */
	pthread_create(&worker, NULL, in_worker, NULL);
	for (;;)
		pause();
}
