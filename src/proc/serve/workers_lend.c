/* workers_lend.c - secrets for the cells of workers: cloister-vault seals them, and this process carries the box.
 *
 * Who asks is known from the stream.  The claim is looked up, and the dispatch's own document says which secrets it needs:
 * nothing of that comes from the worker. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "dispatch/dispatch.h"
#include "ipc/ipc.h"
#include "ipc/lend_channel.h"
#include "proc/serve/workers_parts.h"
#include "registry/registry.h"
#include "store/db.h"
#include "vault/vault_request.h"

#define SEALING_MAX 4                   /* at a time */
#define ASKING_MAX 64                   /* of one worker */
#define AGAIN_MS 500
#define AGAIN_MAX 8                     /* times: a worker that is there renews its claims meanwhile */

struct loan {
	struct workers *workers;
	struct loan *next;
	struct link_talk *talk;
	struct member *member;          /* NULL: the talk is over */
	struct child vault;
	int box, said;                  /* memory files; 0: none */
	struct loop_timer again;
	unsigned looks;                 /* how often its claim could not be seen */
	bool over, waits;
	uint64_t claim;
	unsigned char key[LEND_KEY];
	char names[LEND_NAMES_MAX][SECRET_NAME_MAX + 1];        /* that were asked for */
	size_t n_names;
	char id[DISPATCH_ID_LEN + 1];
};

/* ---- its end ---- */

void
workers_sweep_loans(struct workers *w)
{
	struct loan **at = &w->loans, *loan;

	while ((loan = *at) != NULL) {
		if (!loan->over) {
			at = &loan->next;
			continue;
		}
		*at = loan->next;
		child_drop(&loan->vault);
		loop_cancel_timer(w->loop, &loan->again);
		close_fd(&loan->box);
		close_fd(&loan->said);
		free(loan);
	}
}

static void
settle(struct loan *loan)
{
	if (loan->member != NULL)
		link_talk_finish(loan->talk);
	loan->member = NULL;
	loan->over = true;
	loop_at_round_end(loan->workers->loop, &loan->workers->sweep);
}

void
workers_drop_loans(struct workers *w, const struct member *m)
{
	for (struct loan *loan = w->loans; loan != NULL; loan = loan->next)
		if (loan->member == m || m == NULL) {
			loan->member = NULL;
			/* Others wait for the end of its vault. */
			loan->over = m == NULL || !child_runs(&loan->vault);
		}
}

static void
refuse(struct loan *loan, const char *why)
{
	OWN(buf_free) struct buf message = {0};
	char text[LEND_WHY_MAX];

	snprintf(text, sizeof(text), "%s", why);
	ipc_begin(&message, WORKER_REFUSES);
	buf_put_str(&message, text);
	if (loan->member != NULL)
		link_talk_send(loan->talk, &message);
	settle(loan);
}

/* ---- the vault ---- */

static void
send_box(struct loan *loan)
{
	OWN(buf_free) struct buf message = BUF(LEND_BOX_MAX + 4);
	unsigned char *at;
	struct stat st;

	buf_put_u32(&message, WORKER_BOX);
	if (fstat(loan->box, &st) < 0 || st.st_size > LEND_BOX_MAX || (at = buf_add(&message, (size_t)st.st_size)) == NULL ||
	    pread(loan->box, at, (size_t)st.st_size, 0) != (ssize_t)st.st_size) {
		refuse(loan, "the secrets of this dispatch are too large");
		return;
	}
	if (loan->member != NULL)
		link_talk_send(loan->talk, &message);
	settle(loan);
}

static void begin_next(struct workers *w);

static void
sealed(void *arg, bool exited, int status)
{
	struct loan *loan = arg;
	struct workers *w = loan->workers;
	char why[LEND_WHY_MAX];

	if (loan->member == NULL) {
		settle(loan);
	} else if (exited && status == 0) {
		send_box(loan);
	} else {
		tell_read(loan->said, "the service's vault cannot be opened", why, sizeof(why));
		refuse(loan, why);
	}
	begin_next(w);
}

static int
start_vault(struct loan *loan, const struct vault_request *request, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(VAULT_REQUEST_MAX);
	OWN(closep) int asked = memfd_create("vault-request", MFD_CLOEXEC);
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO }, { loan->said, STDERR_FILENO },
		{ asked, VAULT_REQUEST_FD }, { loan->box, VAULT_BOUND_FD } };

	vault_request_put(&b, request);
	if (asked < 0 || buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	if (write_all(asked, b.data, b.len, err) < 0)
		return -EIO;
	return child_start(&loan->vault, loan->workers->loop, &(struct spawn){
		.argv = (char *[]){ (char[]){ "cloister-vault" }, NULL }, .fds = fds, .n_fds = ARRAY_LEN(fds),
		.flags = SPAWN_APART }, err);
}

/* All that was asked for is the dispatch's. */
static int
bind_names(const struct loan *loan, char *const *given, struct vault_request *request, struct err *err)
{
	for (size_t i = 0; i < loan->n_names; i++) {
		char *const *name = given;

		while (*name != NULL && strcmp(*name, loan->names[i]) != 0)
			name++;
		if (*name == NULL)
			return err_set(err, EPERM, "dispatch %s gives its cell no secret '%s'", loan->id, loan->names[i]);
		request->bind[request->n_bind++] = (struct vault_binding){ .name = *name, .variable = "", .files = "" };
	}
	return 0;
}

/* The claim may have changed while it waited. */
static void
begin(struct loan *loan)
{
	const struct link_worker *who = &loan->member->who;
	struct vault_request request = { .verb = VAULT_LEND, .name = "", .key = "" };
	OWN(strv_freep) char **names = NULL;
	struct err err = {0};
	int r = dispatch_lent_names(loan->workers->reg, &(struct dispatch_claimed){ .id = loan->id, .claim = loan->claim,
		.worker = who->home, .pool = who->pool }, &names, &err);

	r = r == 0 ? bind_names(loan, names, &request, &err) : r;
	request.claim = (struct lend_claim){ .dispatch = loan->id, .number = loan->claim,
		.service = db_home(registry_db(loan->workers->reg)), .worker = who->home };
	memcpy(request.to, loan->key, LEND_KEY);
	if (r == 0) {
		loan->box = memfd_create("lent", MFD_CLOEXEC);
		loan->said = memfd_create("said", MFD_CLOEXEC);
		r = loan->box < 0 || loan->said < 0 ? err_errno(&err, "cannot make a memory file") :
		    start_vault(loan, &request, &err);
	}
	/* The claim was not renewed yet, or the database is away for a moment. */
	if ((r == -EAGAIN || r == -EPIPE) && loan->looks++ < AGAIN_MAX) {
		loan->waits = true;
		loop_set_timer(loan->workers->loop, &loan->again, AGAIN_MS);
	} else if (r < 0) {
		refuse(loan, err.text);
	}
}

static void
begin_next(struct workers *w)
{
	struct loan *oldest;
	size_t n = 0;

	for (struct loan *loan = w->loans; loan != NULL; loan = loan->next)
		n += child_runs(&loan->vault);
	while (n < SEALING_MAX) {
		oldest = NULL;
		for (struct loan *loan = w->loans; loan != NULL; loan = loan->next)
			if (!loan->over && !loan->waits && loan->box == 0 && loan->member != NULL)
				oldest = loan;
		if (oldest == NULL)
			return;
		begin(oldest);
		n += child_runs(&oldest->vault);
	}
}

static void
again_due(void *arg)
{
	struct loan *loan = arg;

	loan->waits = false;
	begin_next(loan->workers);
}

/* ---- the question ---- */

static void
talk_closed(void *arg)
{
	struct loan *loan = arg;

	loan->member = NULL;
	if (!child_runs(&loan->vault))
		loan->over = true;
	loop_at_round_end(loan->workers->loop, &loan->workers->sweep);
}

static void
hear_nothing(void *arg, uint32_t type, struct buf *body)
{
	struct loan *loan = arg;

	(void)type, (void)body;
	/* It has nothing more to say. */
	link_talk_close(loan->talk);
	talk_closed(loan);
}

static int
take_names(struct loan *loan, struct buf *body)
{
	const char *name;
	uint32_t n;

	if (buf_get_u32(body, &n) < 0 || n == 0 || n > LEND_NAMES_MAX)
		return -EBADMSG;
	while (loan->n_names < n) {
		if (buf_get_str(body, &name) < 0 || !secret_name_ok(name))
			return -EBADMSG;
		snprintf(loan->names[loan->n_names++], sizeof(loan->names[0]), "%s", name);
	}
	return buf_left(body) == 0 ? 0 : -EBADMSG;
}

int
workers_lend(struct member *m, struct link_talk *talk, struct buf *body)
{
	struct workers *w = m->workers;
	const char *id;
	struct loan *loan;
	uint64_t claim;
	size_t n = 0;

	if (buf_get_str(body, &id) < 0 || strlen(id) > DISPATCH_ID_LEN || buf_get_u64(body, &claim) < 0 || claim > INT64_MAX ||
	    buf_left(body) < LEND_KEY)
		return -EBADMSG;
	for (loan = w->loans; loan != NULL; loan = loan->next)
		n += loan->member == m;
	loan = n >= ASKING_MAX ? NULL : calloc(1, sizeof(*loan));
	if (loan == NULL)
		return -EBADMSG;
	*loan = (struct loan){ .workers = w, .next = w->loans, .talk = talk, .member = m, .claim = claim,
	                       .vault = { .ended = sealed, .arg = loan } };
	loop_prepare_timer(&loan->again, again_due, loan);
	snprintf(loan->id, sizeof(loan->id), "%s", id);
	memcpy(loan->key, body->data + body->pos, LEND_KEY);
	body->pos += LEND_KEY;
	if (take_names(loan, body) < 0) {
		free(loan);
		return -EBADMSG;
	}
	w->loans = loan;
	talk->max = sizeof(uint32_t);
	talk->heard = hear_nothing;
	talk->closed = talk_closed;
	talk->arg = loan;
	begin_next(w);
	return 0;
}
