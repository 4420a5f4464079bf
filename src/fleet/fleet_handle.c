/* fleet_handle.c - see fleet_handle.h. */
#include "fleet/fleet_handle.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/spawn.h"
#include "ipc/ipc.h"

struct fleet_handle {
	pid_t pid;
	int channel;
	bool is_over;                   /* nothing more can be asked */
};

/* It ends when its channel is closed. */
void
fleet_handle_close(struct fleet_handle *h)
{
	if (h == NULL)
		return;
	close_fd(&h->channel);
	if (h->pid > 0)
		(void)spawn_await(h->pid, NULL);
	free(h);
}

void
fleet_handle_interrupt(struct fleet_handle *h)
{
	(void)shutdown(h->channel, SHUT_RDWR);
}

static int
start(struct fleet_handle *h, struct err *err)
{
	char *argv[] = { (char[]){ "cloister-fleet" }, NULL };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot start cloister-fleet");
	h->pid = spawn_start(&(struct spawn){ .argv = argv, .n_fds = 3, .flags = SPAWN_APART | SPAWN_ONLY,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		                            { ends[1], FLEET_CHANNEL_FD } } }, NULL, err);
	close(ends[1]);
	h->channel = ends[0];
	return h->pid < 0 ? (int)h->pid : 0;
}

/* ---- questions ---- */

static int
await(struct fleet_handle *h, struct err *err)
{
	int64_t until = io_now_ms() + FLEET_ANSWER_MS;
	struct pollfd p = { .fd = h->channel, .events = POLLIN };
	int n;

	do {
		int64_t left = until - io_now_ms();

		n = poll(&p, 1, left > 0 ? (int)left : 0);
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : err_set(err, ETIMEDOUT, "cloister-fleet does not answer");
}

/* Frees QUESTION.  The body of *ret_answer is behind its type. */
static int
ask(struct fleet_handle *h, struct buf *question, struct ipc_message *ret_answer, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	const char *why;
	uint32_t code;
	int r = h->is_over ? -EPIPE : ipc_send(h->channel, question, NULL, 0, NULL);

	buf_free(question);
	/* One that has ended may have said why. */
	if (!h->is_over && (r = await(h, err)) == 0)
		r = ipc_receive(h->channel, &m, NULL);
	if (r == 0 && m.type == FLEET_DONE) {
		*ret_answer = m;
		m = (struct ipc_message){0};
		return 0;
	}
	if (r == 0 && m.type == FLEET_FAILED && buf_get_u32(&m.body, &code) == 0 && buf_get_str(&m.body, &why) == 0 &&
	    code > 0 && code < 4096)
		return err_set(err, (int)code, "%s", why);
	h->is_over = true;
	return r == -ETIMEDOUT ? r : err_set(err, EPIPE, "cloister-fleet has ended: the system's log says why");
}

static int
malformed(struct fleet_handle *h, struct err *err)
{
	h->is_over = true;
	return err_set(err, EBADMSG, "cloister-fleet is malformed");
}

/* A text of an answer, cut to SIZE. */
static bool
take(struct buf *body, char *to, size_t size)
{
	const char *text;

	if (buf_get_str(body, &text) < 0)
		return false;
	fleet_say(to, size, text);
	return true;
}

int
fleet_handle_open(const char *content, const char *tag, struct fleet_handle **ret_handle, struct err *err)
{
	OWN(fleet_handle_closep) struct fleet_handle *h = calloc(1, sizeof(*h));
	OWN(ipc_message_free) struct ipc_message m = {0};
	struct buf question;
	int r;

	if (h == NULL)
		return err_set(err, ENOMEM, "out of memory");
	h->channel = -1;
	r = start(h, err);
	if (r < 0)
		return r;
	ipc_begin(&question, FLEET_OPEN);
	buf_put_str(&question, content);
	buf_put_str(&question, tag);
	r = ask(h, &question, &m, err);
	if (r == 0)
		*ret_handle = TAKE(h);
	return r;
}

int
fleet_handle_count(struct fleet_handle *h, struct fleet_count *ret_count, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	uint32_t alive, failed;
	struct buf question;
	int r;

	ipc_begin(&question, FLEET_COUNT);
	r = ask(h, &question, &m, err);
	if (r < 0)
		return r;
	if (buf_get_u32(&m.body, &alive) < 0 || buf_get_u32(&m.body, &failed) < 0 ||
	    !take(&m.body, ret_count->why, sizeof(ret_count->why)))
		return malformed(h, err);
	ret_count->alive = alive;
	ret_count->failed = failed;
	return 0;
}

int
fleet_handle_start(struct fleet_handle *h, bool probes, const char *const *tokens, size_t n, size_t *ret_n,
                   char (*ret_ids)[FLEET_ID_MAX], struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	char why[FLEET_WHY_MAX], id[FLEET_ID_MAX];
	struct buf question;
	uint32_t done, code;
	int r;

	*ret_n = 0;
	ipc_begin(&question, FLEET_START);
	question.wipes = true;
	buf_put_u32(&question, probes);
	buf_put_u32(&question, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		buf_put_str(&question, tokens[i]);
	r = ask(h, &question, &m, err);
	if (r < 0)
		return r;
	if (buf_get_u32(&m.body, &done) < 0 || done > n)
		return malformed(h, err);
	for (uint32_t i = 0; i < done; i++)
		if (!take(&m.body, ret_ids != NULL ? ret_ids[i] : id, FLEET_ID_MAX))
			return malformed(h, err);
	*ret_n = done;
	if (buf_get_u32(&m.body, &code) < 0 || code >= 4096 || !take(&m.body, why, sizeof(why)))
		return malformed(h, err);
	return code == 0 ? 0 : err_set(err, (int)code, "%s", why);
}

int
fleet_handle_look(struct fleet_handle *h, const char *id, struct fleet_outcome *ret_outcome, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	uint32_t ended, status;
	struct buf question;
	int r;

	ipc_begin(&question, FLEET_LOOK);
	buf_put_str(&question, id);
	r = ask(h, &question, &m, err);
	if (r < 0)
		return r;
	if (buf_get_u32(&m.body, &ended) < 0 || buf_get_u32(&m.body, &status) < 0 ||
	    !take(&m.body, ret_outcome->text, sizeof(ret_outcome->text)))
		return malformed(h, err);
	ret_outcome->ended = ended == 1;
	ret_outcome->status = (int)status;
	return 0;
}

int
fleet_handle_stop(struct fleet_handle *h, const char *id, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	struct buf question;

	ipc_begin(&question, FLEET_STOP);
	buf_put_str(&question, id);
	return ask(h, &question, &m, err);
}

int
fleet_handle_check(struct fleet_handle *h, struct fleet_findings *ret_findings, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	uint32_t n, level;
	struct buf question;
	int r;

	ret_findings->n = 0;
	ipc_begin(&question, FLEET_CHECK);
	r = ask(h, &question, &m, err);
	if (r < 0)
		return r;
	if (buf_get_u32(&m.body, &n) < 0 || n > FLEET_FINDINGS_MAX)
		return malformed(h, err);
	for (uint32_t i = 0; i < n; i++) {
		struct fleet_finding *finding = &ret_findings->at[i];

		if (buf_get_u32(&m.body, &level) < 0 || level > FLEET_MISSING || !take(&m.body, finding->text, sizeof(finding->text)))
			return malformed(h, err);
		finding->level = level;
	}
	ret_findings->n = n;
	return 0;
}
