/* steer_fields.c - writes and reads the fields of a request, as its row describes them. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

static const char *
text_or_empty(const char *text)
{
	return text != NULL ? text : "";
}

static void
put_who(struct buf *b, const struct steer_request *q)
{
	buf_put_str(b, text_or_empty(q->by));
	buf_put_str(b, text_or_empty(q->why));
	buf_put_u32(b, q->tells ? CONTROL_WHO_TELLS : 0);
}

static bool
has_who(const struct steer_request *q)
{
	return *text_or_empty(q->by) != '\0' || *text_or_empty(q->why) != '\0' || q->tells;
}

void
steer_put(struct buf *message, const struct steer_request *q)
{
	const struct steer_row *row = &steer_rows[q->verb];
	size_t n = 0, texts = 0;

	ipc_begin(message, row->message);
	for (const char *field = row->fields; *field != '\0'; field++) {
		if (*field == 'w' || (*field == 'W' && has_who(q)))
			put_who(message, q);
		else if (*field == 'n')
			buf_put_str(message, row->name);
		else if (*field == 's')
			buf_put_str(message, text_or_empty(q->text[texts++]));
		else if (*field == 'u')
			buf_put_u32(message, (uint32_t)q->n[n++]);
		else if (*field == 'U')
			buf_put_u64(message, q->n[n++]);
		else if (*field == 'o' && q->n[n++] != 0)
			buf_put_u32(message, (uint32_t)q->n[n - 1]);
	}
}

static int
get_who(struct buf *b, struct steer_request *q)
{
	uint32_t flags;

	if (buf_get_str(b, &q->by) < 0 || strlen(q->by) > CONTROL_BY_MAX ||
	    buf_get_str(b, &q->why) < 0 || strlen(q->why) > CONTROL_WHY_MAX ||
	    buf_get_u32(b, &flags) < 0 || flags > CONTROL_WHO_TELLS)
		return -EBADMSG;
	q->tells = flags == CONTROL_WHO_TELLS;
	return 0;
}

static int
get_name(struct buf *b, const char *name)
{
	const char *text;

	return buf_get_str(b, &text) < 0 || strcmp(text, name) != 0 ? -EBADMSG : 0;
}

static int
get_u32(struct buf *b, uint64_t *ret_n)
{
	uint32_t n;

	if (buf_get_u32(b, &n) < 0)
		return -EBADMSG;
	*ret_n = n;
	return 0;
}

static int
get_field(struct buf *b, const struct steer_row *row, char field, struct steer_request *q,
          uint64_t *number, const char **text)
{
	switch (field) {
	case 'w':
		return get_who(b, q);
	case 'W':
		return buf_left(b) == 0 ? 0 : get_who(b, q);
	case 'n':
		return get_name(b, row->name);
	case 's':
		return buf_get_str(b, text);
	case 'u':
		return get_u32(b, number);
	case 'U':
		return buf_get_u64(b, number);
	default:                        /* o */
		return buf_left(b) == 0 ? 0 : get_u32(b, number);
	}
}

static int
get_row(struct buf *b, const struct steer_row *row, struct steer_request *q)
{
	size_t n = 0, texts = 0;

	for (const char *field = row->fields; *field != '\0'; field++) {
		bool is_number = strchr("uUo", *field) != NULL, is_text = *field == 's';

		if (*field == 'x')
			return 0;
		if (get_field(b, row, *field, q, &q->n[is_number ? n : 0], &q->text[is_text ? texts : 0]) < 0)
			return -EBADMSG;
		n += is_number;
		texts += is_text;
	}
	return buf_left(b) == 0 ? 0 : -EBADMSG;
}

int
steer_get(uint32_t type, struct buf *body, size_t n_fds, struct steer_request *ret_q)
{
	for (int i = 0; i < STEER_VERBS; i++) {
		const struct steer_row *row = &steer_rows[i];
		struct steer_request q = { .verb = (enum steer_verb)i, .by = "", .why = "" };
		struct buf b = *body;           /* a reader of its own */

		if (row->message != type || (row->n_fds >= 0 && (size_t)row->n_fds != n_fds) ||
		    get_row(&b, row, &q) < 0)
			continue;
		body->pos = b.pos;
		*ret_q = q;
		return 0;
	}
	return -EBADMSG;
}
