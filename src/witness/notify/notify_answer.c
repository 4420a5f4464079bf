/* notify_answer.c - the answerer: lets calls go on that the agent's filter allows, and refuses the others.
 *
 * It has the listener and a socket to the reader.  The kernel's structures are all that it decides by. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "confine/filter.h"

static int
error_of(uint32_t filter, const struct seccomp_data *data)
{
	uint32_t verdict = filter_answer(filter, data);

	if (verdict == SECCOMP_RET_ALLOW)
		return 0;
	return (verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO ? (int)(verdict & SECCOMP_RET_DATA) : EPERM;
}

/* False once the reader is gone: then nobody has to be asked. */
static bool
ask_reader(int pair, const struct seccomp_notif *notif, int error)
{
	const struct notify_call call = { notif->id, (pid_t)notif->pid, error, notif->data };
	struct notify_looked looked;
	ssize_t n;

	do
		n = send(pair, &call, sizeof(call), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(call))
		return false;
	do
		n = recv(pair, &looked, sizeof(looked), 0);
	while (n < 0 && errno == EINTR);
	/* The reader has one call at a time: any other answer is not one. */
	return n == sizeof(looked) && looked.id == notif->id;
}

_Noreturn void
notify_answer(int listener, int pair, uint32_t filter)
{
	bool has_reader = true;

	for (;;) {
		struct pollfd fds[] = { { .fd = listener, .events = POLLIN }, { .fd = has_reader ? pair : -1 } };
		struct seccomp_notif notif;
		struct seccomp_notif_resp resp;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			_exit(1);
		if (fds[1].revents != 0)
			has_reader = false;
		if ((fds[0].revents & POLLIN) == 0) {
			if (fds[0].revents != 0)
				_exit(0);
			continue;
		}
		memset(&notif, 0, sizeof(notif));
		/* ENOENT: the caller was killed or interrupted meanwhile. */
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notif) < 0)
			continue;
		resp = (struct seccomp_notif_resp){ .id = notif.id, .error = -error_of(filter, &notif.data) };
		if (resp.error == 0)
			resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		has_reader = has_reader && ask_reader(pair, &notif, -resp.error);
		(void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &resp);
	}
}
