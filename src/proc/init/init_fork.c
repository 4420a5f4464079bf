/* init_fork.c - holds still while the machine is copied, together with cloister-guest's forker. */
#include <errno.h>
#include <unistd.h>

#include "ipc/vm_fork_channel.h"
#include "proc/init/init.h"

int
init_fork_hold(void)
{
	char word = FORK_HOLD;
	ssize_t n;

	/* The forker stops all processes of the cell, this one included, before it says so to the supervisor. */
	if (write(INIT_FORK_FD, &word, 1) != 1)
		return -EPIPE;
	do
		n = read(INIT_FORK_FD, &word, 1);
	while (n < 0 && errno == EINTR);
	return n != 1 ? -EPIPE : word == FORK_GO_ON ? 0 : word == FORK_IS_COPY ? 1 : -EBADMSG;
}
