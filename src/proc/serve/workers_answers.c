/* workers_answers.c - see workers_answers.h. */
#include "proc/serve/workers_answers.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_spec.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

/* ---- requests ---- */

static void
replace(struct buf *body, struct buf *by)
{
	buf_free(body);
	*body = *by;
	*by = (struct buf){0};
}

/* CONTROL_EXEC may end with who asks. */
static int
name_exec(const char *by, struct buf *body)
{
	struct buf b = *body;
	const char *text;
	uint32_t n;

	if (buf_get_u32(&b, &n) < 0 || buf_get_u32(&b, &n) < 0 || buf_get_u32(&b, &n) < 0 || buf_get_str(&b, &text) < 0)
		return -EBADMSG;
	for (int list = 0; list < 2; list++) {
		if (buf_get_u32(&b, &n) < 0)
			return -EBADMSG;
		while (n-- > 0)
			if (buf_get_str(&b, &text) < 0)
				return -EBADMSG;
	}
	if (buf_left(&b) == 0)
		buf_put_str(body, by);
	return buf_failed(body) ? -EBADMSG : 0;
}

int
workers_check_request(const char *by, uint32_t type, struct buf *body, size_t n_fds, struct err *err)
{
	OWN(buf_free) struct buf named = {0};
	struct steer_request q;
	struct buf b = *body;
	int passed;

	if (steer_get(type, &b, n_fds, &q) < 0)
		return -EBADMSG;
	if (q.verb == VERB_COPY || q.verb == VERB_START)
		return err_set(err, EPERM, "the cell is on another machine: this can be done there only");
	if (q.verb == VERB_EXEC)
		return name_exec(by, body);
	/* The new value does not pass here: the worker asks for it, sealed to a process of its own. */
	passed = q.verb == VERB_ROTATE;
	if (strpbrk(steer_rows[q.verb].fields, "wW") == NULL || q.by[0] != '\0')
		return passed;
	q.by = by;
	steer_put(&named, &q);
	if (buf_failed(&named))
		return -EBADMSG;
	/* The type goes apart. */
	memmove(named.data, named.data + sizeof(type), named.len - sizeof(type));
	named.len -= sizeof(type);
	buf_put(&named, b.data + b.pos, buf_left(&b));
	replace(body, &named);
	return buf_failed(body) ? -EBADMSG : passed;
}

/* ---- answers ---- */

/* Its pids are those of another machine, where nobody here must look for them. */
static int
check_info(const char *cell, struct buf *body)
{
	OWN(cell_spec_free) struct cell_spec spec = {0};
	OWN(buf_free) struct buf out = BUF(IPC_MESSAGE_MAX);
	uint32_t state, pid;
	uint64_t started;

	if (buf_get_u32(body, &state) < 0 || state > CONTROL_STATE_PAUSED || cell_spec_get(body, &spec, NULL) < 0)
		return -EBADMSG;
	if (strcmp(spec.id, cell) != 0 || buf_get_u64(body, &started) < 0)
		return -EBADMSG;
	for (int i = 0; i < 3; i++)
		if (buf_get_u32(body, &pid) < 0)
			return -EBADMSG;
	buf_put_u32(&out, state);
	cell_spec_put(&out, &spec);
	buf_put_u64(&out, started);
	for (int i = 0; i < 3; i++)
		buf_put_u32(&out, 0);
	buf_put(&out, body->data + body->pos, buf_left(body));
	if (buf_failed(&out))
		return -EBADMSG;
	replace(body, &out);
	return 0;
}

/* Commands print it: a terminal must not obey it. */
static int
check_text(struct buf *body, bool has_number)
{
	struct buf b = *body;
	const char *text;
	uint32_t n;

	if ((has_number && buf_get_u32(&b, &n) < 0) || buf_get_str(&b, &text) < 0)
		return -EBADMSG;
	for (unsigned char *c = b.data + b.pos - strlen(text) - 1; *c != '\0'; c++)
		if ((*c < ' ' && *c != '\n') || *c == 0x7f)
			*c = '?';
	return 0;
}

int
workers_check_answer(const char *cell, uint32_t type, struct buf *body, size_t n_fds)
{
	switch (type) {
	case CONTROL_IS:
		return n_fds == 0 ? check_info(cell, body) : -EBADMSG;
	case CONTROL_REFUSED:
	case CONTROL_ENDED:
		return n_fds == 0 ? check_text(body, true) : -EBADMSG;
	case CONTROL_SAYS:
		return n_fds == 0 ? check_text(body, false) : -EBADMSG;
	case CONTROL_DEAD: case CONTROL_EXITED: case CONTROL_APPROVAL:
		return n_fds == 0 ? 0 : -EBADMSG;
	case CONTROL_STARTED:
		return n_fds <= 1 ? 0 : -EBADMSG;
	case CONTROL_DONE:
		return 0;
	default:
		return -EBADMSG;
	}
}
