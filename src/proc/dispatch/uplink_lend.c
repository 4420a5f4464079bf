/* uplink_lend.c - see uplink.h: asks the service for the secrets of a cell, which it never sees. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "dispatch/dispatch.h"
#include "ipc/ipc.h"
#include "ipc/lend_channel.h"
#include "proc/dispatch/uplink_parts.h"

/* One cell, for as long as its cloister-vault is there. */
struct loan {
	struct uplink *uplink;
	struct loan *next;
	struct loop_source vault;       /* owns its descriptor */
	struct loop_timer late;
	struct link_talk *talk;         /* while it asks */
	bool waits, dead;               /* for the service; it is to be freed */
	unsigned char key[LEND_KEY];
	uint64_t claim;
	char id[DISPATCH_ID_LEN + 1], service[LINK_HOME_MAX + 1];
};

/* ---- its end ---- */

void
uplink_sweep_loans(struct uplink *u)
{
	struct loan **at = &u->loans, *loan;

	while ((loan = *at) != NULL) {
		if (!loan->dead) {
			at = &loan->next;
			continue;
		}
		*at = loan->next;
		if (loan->talk != NULL)
			link_talk_close(loan->talk);
		loop_cancel_timer(u->loop, &loan->late);
		loop_unwatch(u->loop, &loan->vault);
		close(loan->vault.fd);
		free(loan);
	}
}

void
uplink_free_loans(struct uplink *u)
{
	for (struct loan *loan = u->loans; loan != NULL; loan = loan->next) {
		loan->dead = true;
		loan->talk = NULL;
	}
	uplink_sweep_loans(u);
}

static void
end(struct loan *loan)
{
	loan->dead = true;
	loop_at_round_end(loan->uplink->loop, &loan->uplink->sweep);
}

/* ---- the answer ---- */

static void
settle(struct loan *loan)
{
	loan->waits = false;
	loop_cancel_timer(loan->uplink->loop, &loan->late);
	if (loan->talk != NULL)
		link_talk_close(TAKE(loan->talk));
}

static void
refuse(struct loan *loan, const char *why)
{
	OWN(buf_free) struct buf message = {0};

	settle(loan);
	ipc_begin(&message, LEND_REFUSED);
	buf_put_str(&message, why);
	if (ipc_send(loan->vault.fd, &message, NULL, 0, NULL) < 0)
		end(loan);
}

static void
hand_over(struct loan *loan, const struct buf *box)
{
	OWN(closep) int fd = memfd_create("lent", MFD_CLOEXEC);
	OWN(buf_free) struct buf message = {0};

	if (fd < 0 || write_all(fd, box->data + box->pos, buf_left(box), NULL) < 0) {
		refuse(loan, "this machine has no memory for the secrets");
		return;
	}
	settle(loan);
	ipc_begin(&message, LEND_BOX);
	if (ipc_send(loan->vault.fd, &message, &fd, 1, NULL) < 0)
		end(loan);
}

static void
heard(void *arg, uint32_t type, struct buf *body)
{
	struct loan *loan = arg;
	const char *why;

	if (type == WORKER_BOX && buf_left(body) <= LEND_BOX_MAX)
		hand_over(loan, body);
	else if (type == WORKER_REFUSES && buf_get_str(body, &why) == 0 && strlen(why) <= LEND_WHY_MAX)
		refuse(loan, why);
	else
		refuse(loan, "the service sent something else than secrets");
}

static void
closed(void *arg)
{
	struct loan *loan = arg;

	/* The service that comes back is asked again. */
	loan->talk = NULL;
}

static void
too_late(void *arg)
{
	refuse(arg, "the service that lends the secrets of this dispatch cannot be reached");
}

/* ---- the question ---- */

static void
ask(struct loan *loan)
{
	struct link_line *line = uplink_line(loan->uplink, loan->service);
	OWN(buf_free) struct buf body = BUF(MUX_FRAME_MAX);

	if (line == NULL || loan->talk != NULL)
		return;
	buf_put_str(&body, loan->id);
	buf_put_u64(&body, loan->claim);
	buf_put(&body, loan->key, LEND_KEY);
	loan->talk = link_line_open(line, WORKER_SECRETS, &body);
	if (loan->talk == NULL)
		return;
	loan->talk->heard = heard;
	loan->talk->closed = closed;
	loan->talk->arg = loan;
}

void
uplink_forget_talks(struct uplink *u, const char *home)
{
	for (struct loan *loan = u->loans; loan != NULL; loan = loan->next)
		if (strcmp(loan->service, home) == 0)
			loan->talk = NULL;
}

void
uplink_ask_again(struct uplink *u)
{
	for (struct loan *loan = u->loans; loan != NULL; loan = loan->next)
		if (loan->waits && !loan->dead)
			ask(loan);
}

static void
vault_ready(void *arg, uint32_t events)
{
	struct loan *loan = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(loan->vault.fd, &message, NULL);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || message.type != LEND_ASK || loan->waits || buf_left(&message.body) != LEND_KEY) {
		end(loan);
		return;
	}
	memcpy(loan->key, message.body.data + message.body.pos, LEND_KEY);
	if (!uplink_knows(loan->uplink, loan->service)) {
		refuse(loan, "this worker has not joined the service that asked for the dispatch, and has no secrets for it");
		return;
	}
	loan->waits = true;
	loop_set_timer(loan->uplink->loop, &loan->late, LEND_PATIENCE_MS);
	ask(loan);
}

static int
begin(struct uplink *u, struct loan *loan, struct err *err)
{
	OWN(buf_free) struct buf message = {0};

	ipc_begin(&message, LEND_FOR);
	buf_put_str(&message, loan->id);
	buf_put_u64(&message, loan->claim);
	buf_put_str(&message, loan->service);
	buf_put_str(&message, u->home);
	return ipc_send(loan->vault.fd, &message, NULL, 0, err);
}

int
uplink_lend(struct uplink *u, const struct dispatch *d, struct err *err)
{
	struct loan *loan = calloc(1, sizeof(*loan));
	OWN(closep) int theirs = -1;
	int ends[2], r;

	if (loan == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		free(loan);
		return err_set(err, ENOMEM, "cannot create a channel for secrets");
	}
	theirs = ends[1];
	*loan = (struct loan){ .uplink = u, .next = u->loans, .claim = d->claim,
		.vault = { .fd = ends[0], .ready = vault_ready, .arg = loan }, .late = { .due = too_late, .arg = loan } };
	snprintf(loan->id, sizeof(loan->id), "%s", d->id);
	snprintf(loan->service, sizeof(loan->service), "%s", d->origin);
	u->loans = loan;
	r = fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0 ? err_errno(err, "cannot create a channel for secrets") :
	    begin(u, loan, err);
	r = r == 0 ? loop_watch(u->loop, &loan->vault, EPOLLIN, err) : r;
	if (r < 0)
		end(loan);
	return r < 0 ? r : TAKE_FD(theirs);
}
