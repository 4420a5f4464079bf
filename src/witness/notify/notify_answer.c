/* notify_answer.c - the answerer: lets calls go on that the agent's filter allows, and refuses the others.
 *
 * It has the listener and a socket to the reader.  The kernel's structures are all that it decides by.
 *
 * Until a call is received, a signal interrupts it, which programs do not expect of every call.  So each is received
 * at once, even while the reader looks at others. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "confine/filter.h"

#define WAITING_MAX 128                 /* calls that the reader has yet to look at; a socket holds as many */

struct answerer {
	int listener, pair;
	uint32_t filter;
	const struct filter_own *own;
	bool has_reader;
	/* A ring: the reader looks at one after the other. */
	struct seccomp_notif_resp waiting[WAITING_MAX];
	size_t first, n;
};

/* Of two filters that refuse, the newer one's error counts. */
static int
error_of(const struct answerer *a, const struct seccomp_data *data)
{
	uint32_t verdict = filter_own_answer(a->own, data);

	if (verdict == SECCOMP_RET_ALLOW)
		verdict = filter_answer(a->filter, data);
	if (verdict == SECCOMP_RET_ALLOW)
		return 0;
	return (verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO ? (int)(verdict & SECCOMP_RET_DATA) : EPERM;
}

/* It fails if the caller was killed meanwhile. */
static void
answer_first(struct answerer *a)
{
	(void)ioctl(a->listener, SECCOMP_IOCTL_NOTIF_SEND, &a->waiting[a->first]);
	a->first = (a->first + 1) % WAITING_MAX;
	a->n--;
}

/* Nobody has to be asked any more. */
static void
lose_reader(struct answerer *a)
{
	a->has_reader = false;
	while (a->n > 0)
		answer_first(a);
}

static void
take_call(struct answerer *a)
{
	struct seccomp_notif notif;
	struct seccomp_notif_resp *resp = &a->waiting[(a->first + a->n) % WAITING_MAX];
	struct notify_call call;

	memset(&notif, 0, sizeof(notif));
	/* ENOENT: the caller was killed or interrupted meanwhile. */
	if (ioctl(a->listener, SECCOMP_IOCTL_NOTIF_RECV, &notif) < 0)
		return;
	*resp = (struct seccomp_notif_resp){ .id = notif.id, .error = -error_of(a, &notif.data) };
	if (resp->error == 0)
		resp->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	a->n++;
	call = (struct notify_call){ notif.id, (pid_t)notif.pid, -resp->error, notif.data };
	if (!a->has_reader || send(a->pair, &call, sizeof(call), MSG_NOSIGNAL) != sizeof(call))
		lose_reader(a);
}

static void
take_looked(struct answerer *a)
{
	struct notify_looked looked;

	if (recv(a->pair, &looked, sizeof(looked), MSG_DONTWAIT) != sizeof(looked) || a->n == 0 ||
	    looked.id != a->waiting[a->first].id)
		lose_reader(a);
	else
		answer_first(a);
}

_Noreturn void
notify_answer(int listener, int pair, uint32_t filter, const struct filter_own *own)
{
	static struct answerer a;

	a = (struct answerer){ .listener = listener, .pair = pair, .filter = filter, .own = own, .has_reader = true };
	for (;;) {
		struct pollfd fds[] = {
			{ .fd = a.n < WAITING_MAX ? listener : -1, .events = POLLIN },
			{ .fd = a.has_reader ? pair : -1, .events = POLLIN },
		};

		if (poll(fds, 2, -1) < 0) {
			if (errno != EINTR)
				_exit(1);
			continue;
		}
		if ((fds[0].revents & POLLIN) != 0)
			take_call(&a);
		else if (fds[1].revents != 0)
			take_looked(&a);
		else if (fds[0].revents != 0)
			_exit(0);       /* the filter's last process has ended */
	}
}
