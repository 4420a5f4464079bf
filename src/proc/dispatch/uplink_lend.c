/* uplink_lend.c - see uplink.h: asks the service for the secrets of a cell, which it never sees. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "dispatch/dispatch.h"
#include "ipc/ipc.h"
#include "ipc/lend_channel.h"
#include "proc/dispatch/uplink_parts.h"
#include "vault/lend.h"

#define LOANS_MAX 1024                  /* questions at a time */
#define BACKLOG 64

/* One question of a cell's cloister-vault. */
struct loan {
	struct uplink *uplink;
	struct loan *next;
	struct loop_source vault;       /* owns its descriptor */
	struct loop_timer late;
	struct link_talk *talk;         /* while the service is asked */
	bool waits, dead;               /* for the service; it is to be freed */
	struct buf names;               /* of the secrets, as they came */
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
		buf_free(&loan->names);
		free(loan);
	}
}

/* Another worker with this folder may listen there by now. */
static void
stop_listening(struct uplink *u)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);
	char name[sizeof(LEND_SOCKET) + LINK_HOME_MAX];
	struct stat st;

	loop_unwatch(u->loop, &u->lends);
	close_fd(&u->lends.fd);
	snprintf(name, sizeof(name), LEND_SOCKET "%s", u->home);
	if (runtime >= 0 && fstatat(runtime, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == u->lends_at)
		(void)unlinkat(runtime, name, 0);
}

void
uplink_free_loans(struct uplink *u)
{
	stop_listening(u);
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
	(void)ipc_send(loan->vault.fd, &message, NULL, 0, NULL);
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
	(void)ipc_send(loan->vault.fd, &message, &fd, 1, NULL);
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
	buf_put(&body, loan->names.data, loan->names.len);
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

/* The service judges the claim and the names; whether this is about a claim of this worker is seen here. */
static int
take_question(struct loan *loan, struct buf *body)
{
	struct lend_claim claim;

	if (lend_get_claim(body, &claim) < 0 || strlen(claim.dispatch) > DISPATCH_ID_LEN || strlen(claim.service) > LINK_HOME_MAX ||
	    strcmp(claim.worker, loan->uplink->home) != 0 || buf_left(body) < LEND_KEY)
		return -EBADMSG;
	snprintf(loan->id, sizeof(loan->id), "%s", claim.dispatch);
	snprintf(loan->service, sizeof(loan->service), "%s", claim.service);
	loan->claim = claim.number;
	memcpy(loan->key, body->data + body->pos, LEND_KEY);
	body->pos += LEND_KEY;
	buf_init(&loan->names, MUX_FRAME_MAX / 2);
	buf_put(&loan->names, body->data + body->pos, buf_left(body));
	return buf_failed(&loan->names) ? -EBADMSG : 0;
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
	/* One question, and then it waits or hangs up. */
	if (r < 0 || message.type != LEND_ASK || loan->waits || take_question(loan, &message.body) < 0) {
		end(loan);
		return;
	}
	if (!uplink_knows(loan->uplink, loan->service)) {
		refuse(loan, "this worker has not joined the service that asked for the dispatch, and has no secrets for it");
		return;
	}
	loan->waits = true;
	loop_set_timer(loan->uplink->loop, &loan->late, LEND_PATIENCE_MS);
	ask(loan);
}

static bool
is_ours(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == geteuid() || peer.uid == 0);
}

static void
begin(struct uplink *u, int fd)
{
	struct loan *loan = calloc(1, sizeof(*loan));

	if (loan == NULL) {
		close(fd);
		return;
	}
	*loan = (struct loan){ .uplink = u, .next = u->loans,
		.vault = { .fd = fd, .ready = vault_ready, .arg = loan }, .late = { .due = too_late, .arg = loan } };
	u->loans = loan;
	if (loop_watch(u->loop, &loan->vault, EPOLLIN, NULL) < 0)
		end(loan);
}

static void
accept_ready(void *arg, uint32_t events)
{
	struct uplink *u = arg;
	size_t n = 0;
	int fd;

	(void)events;
	for (const struct loan *loan = u->loans; loan != NULL; loan = loan->next)
		n += !loan->dead;
	while ((fd = accept4(u->lends.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
		if (n++ >= LOANS_MAX || !is_ours(fd))
			close(fd);
		else
			begin(u, fd);
	}
}

int
uplink_begin_loans(struct uplink *u, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char name[sizeof(LEND_SOCKET) + LINK_HOME_MAX];
	struct stat st;

	if (runtime < 0)
		return runtime;
	u->lends = (struct loop_source){ .ready = accept_ready, .arg = u,
		.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
	snprintf(name, sizeof(name), LEND_SOCKET "%s", u->home);
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", runtime, name);
	/* Of a worker that was killed, or of one that waits for its last cells: those find this one. */
	(void)unlinkat(runtime, name, 0);
	if (u->lends.fd < 0 || bind(u->lends.fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(u->lends.fd, BACKLOG) < 0 || fstatat(runtime, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot listen for the questions of cells");
	u->lends_at = st.st_ino;
	return loop_watch(u->loop, &u->lends, EPOLLIN, err);
}
