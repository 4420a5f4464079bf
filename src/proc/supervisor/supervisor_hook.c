/* supervisor_hook.c - starts cloister-hook, if rules of the policy have hooks.
 *
 * It starts before the supervisor locks itself down, because it runs the operator's own programs.
 * The starter holds its channel, and the two end together. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/hook_channel.h"
#include "proc/supervisor/supervisor.h"

#define READY_MS 10000                  /* to load the policy */

static int
await_ready(int channel, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};

	if (!io_is_readable(channel, io_now_ms() + READY_MS) ||
	    ipc_receive(channel, &message, NULL) < 0 || message.type != HOOK_READY)
		return err_set(err, EIO, "cloister-hook did not start, and the policy has hooks: look for its "
		               "own message above, or reinstall cloister");
	return 0;
}

int
supervisor_hook_start(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	char *argv[] = { (char[]){ "cloister-hook" }, NULL };
	OWN(closep) int theirs = -1;
	struct spawn_how how = { .argv = argv, .n_fds = 2, .env = environ,
	                         .silent = sv->spec.detached };
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	e->hooks = ends[0];
	theirs = ends[1];
	how.fds = (int[]){ theirs, e->policy.policy };
	pid = supervisor_spawn(sv->libexec, &how, err);
	if (pid < 0)
		return pid;
	e->hook = pid;
	closep(&theirs);
	theirs = -1;
	return await_ready(e->hooks, err);
}
