/* main.c - cloister-state: reads and writes the objects of a state.  src/state starts it; see ipc/state_channel.h. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#include "proc/state/state_proc.h"

int
main(void)
{
	if (fcntl(STATE_CHANNEL_FD, F_GETFD) < 0 || fcntl(STATE_DIR_FD, F_GETFD) < 0) {
		fputs("cloister-state is started by cloister only\n", stderr);
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	return worker_main();
}
