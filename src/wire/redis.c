/* redis.c - see redis.h: finds the ends of arrays. */
#include "wire/redis.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "wire/redis_parts.h"

#define COUNT_MAX INT32_MAX
#define LENGTH_MAX ((int64_t)1 << 40)

void
redis_reader_init(struct redis_reader *r)
{
	*r = (struct redis_reader){0};
	/* Including room for the line end after the last argument. */
	buf_init_secret(&r->held, REDIS_LOGIN_MAX);
	buf_init_secret(&r->coded, 8 * REDIS_LINE_MAX);
}

void
redis_reader_free(struct redis_reader *r)
{
	buf_free(&r->held);
	buf_free(&r->coded);
}

/* ---- lines with a number ---- */

/* Parse "*3\r\n" or "$12\r\n" exactly as servers do. */
static int64_t
parse_number(const char *text, size_t len, int64_t max)
{
	int64_t n = 0;

	if (len < 4 || len > 16 || text[len - 2] != '\r' || (text[1] == '0' && len > 4))
		return -1;
	for (size_t i = 1; i < len - 2; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -1;
		n = n * 10 + text[i] - '0';
	}
	return n > max ? -1 : n;
}

/* Take bytes of the line, up to its end.  True: it is complete. */
static int
take_number(struct redis_reader *r, const unsigned char *data, size_t len, size_t *ret_n,
            struct err *err)
{
	for (size_t i = 0; i < len; i++) {
		if (r->n_number == REDIS_NUMBER_MAX)
			return err_set(err, EBADMSG, "a length in a Redis command is none");
		r->number[r->n_number++] = (char)data[i];
		if (data[i] == '\n') {
			*ret_n = i + 1;
			return 1;
		}
	}
	*ret_n = len;
	return 0;
}

/* ---- commands ---- */

static void
start_command(struct redis_reader *r)
{
	r->state = REDIS_START;
	r->mode = REDIS_DECIDES;
	r->n_number = 0;
	r->index = 0;
}

/* The length of an argument is known. */
static int
begin_argument(struct redis_reader *r, struct err *err)
{
	int64_t n = r->number[0] == '$' ? parse_number(r->number, r->n_number, LENGTH_MAX) : -1;

	if (n < 0)
		return err_set(err, EBADMSG, "a length in a Redis command is none");
	r->n_number = 0;
	r->left = (uint64_t)n;
	r->ends = 0;
	r->state = n > 0 ? REDIS_BODY : REDIS_BODY_END;
	if (r->index == 0 && n != 4 && n != 5)
		r->mode = REDIS_PASSES;
	return 0;
}

static int
begin_command(struct redis_reader *r, struct err *err)
{
	int64_t n = parse_number(r->number, r->n_number, COUNT_MAX);

	if (n < 0)
		return err_set(err, EBADMSG, "the number of words in a Redis command is none");
	r->n_number = 0;
	r->args = (uint64_t)n;
	r->state = REDIS_LENGTH;
	return 0;
}

/* Whether the command may be a login; its name is complete. */
static bool
may_log_in(const struct redis_reader *r)
{
	const char *name = (const char *)r->held.data + r->held.len - r->lens[0];

	if (r->lens[0] == 4)
		return strncasecmp(name, "AUTH", 4) == 0 && (r->args == 2 || r->args == 3);
	return strncasecmp(name, "HELLO", 5) == 0 && r->args >= 5 && r->args <= REDIS_LOGIN_WORDS;
}

/* ---- bytes ---- */

/* Take as much of DATA as belongs together; *RET_N bytes.  Bytes go to HELD until it is decided
 * that they may pass. */
static int
redis_step(struct redis_reader *r, const unsigned char *data, size_t len, size_t *ret_n,
           struct err *err)
{
	int r_number;

	switch (r->state) {
	case REDIS_START:
		*ret_n = 0;
		r->state = data[0] == '*' ? REDIS_COUNT : REDIS_LINE;
		return 0;
	case REDIS_COUNT:
	case REDIS_LENGTH:
		r_number = take_number(r, data, len, ret_n, err);
		if (r_number <= 0)
			return r_number;
		return r->state == REDIS_COUNT ? begin_command(r, err) : begin_argument(r, err);
	case REDIS_BODY:
		*ret_n = r->left < len ? (size_t)r->left : len;
		r->left -= *ret_n;
		if (r->left == 0)
			r->state = REDIS_BODY_END;
		return 0;
	case REDIS_BODY_END:
		*ret_n = 1;
		if (data[0] != "\r\n"[r->ends])
			return err_set(err, EBADMSG, "a word of a Redis command is longer than it says");
		if (++r->ends == 2) {
			r->index++;
			r->state = REDIS_LENGTH;
		}
		return 0;
	default:
		return err_set(err, EBADMSG, "this is no Redis command");
	}
}

/* After a step that belongs to the command's name or to a login. */
static int
hold(struct redis_reader *r, const unsigned char *data, size_t n, bool is_body, struct err *err)
{
	if (is_body && r->index < REDIS_LOGIN_WORDS) {
		if (r->lens[r->index] == 0)
			r->at[r->index] = r->held.len;
		r->lens[r->index] += n;
	}
	buf_put(&r->held, data, n);
	if (buf_failed(&r->held))
		return err_set(err, EBADMSG, "a command that logs in to Redis is too long");
	if (is_body && r->mode == REDIS_DECIDES && r->state == REDIS_BODY_END)
		r->mode = may_log_in(r) ? REDIS_GATHERS : REDIS_PASSES;
	return 0;
}

static bool
is_complete(const struct redis_reader *r)
{
	return r->state == REDIS_LENGTH && r->n_number == 0 && r->index == r->args;
}

/* A possible login is complete. */
static int
end_gathered(struct redis_reader *r, struct redis_text *ret_piece, struct redis_login *ret_login)
{
	struct redis_text words[REDIS_LOGIN_WORDS];
	size_t n = (size_t)r->args;

	for (size_t i = 0; i < n; i++)
		words[i] = (struct redis_text){ (char *)r->held.data + r->at[i], r->lens[i] };
	r->given = true;
	start_command(r);
	if (redis_login_find(words, n, ret_login))
		return REDIS_LOGIN;
	*ret_piece = (struct redis_text){ (char *)r->held.data, r->held.len };
	return REDIS_PASS;
}

static int
give_held(struct redis_reader *r, struct redis_text *ret_piece)
{
	r->given = true;
	*ret_piece = (struct redis_text){ (char *)r->held.data, r->held.len };
	return REDIS_PASS;
}

/* Drop what was returned. */
static void
forget_given(struct redis_reader *r)
{
	if (!r->given)
		return;
	r->given = false;
	buf_reset(&r->held);
	buf_reset(&r->coded);
	memset(r->at, 0, sizeof(r->at));
	memset(r->lens, 0, sizeof(r->lens));
}

/* Pass bytes on as one piece: to the end of the command, or of DATA. */
static int
pass(struct redis_reader *r, const unsigned char *data, size_t len, size_t *ret_used,
     struct redis_text *ret_piece, struct err *err)
{
	size_t n = 0, at = *ret_used;
	int e = 0;

	for (; e == 0 && at < len && !is_complete(r); at += n)
		e = redis_step(r, data + at, len - at, &n, err);
	if (e < 0)
		return e;
	*ret_piece = (struct redis_text){ (const char *)data + *ret_used, at - *ret_used };
	*ret_used = at;
	if (is_complete(r))
		start_command(r);
	return REDIS_PASS;
}

int
redis_read(struct redis_reader *r, const unsigned char *data, size_t len, size_t *ret_used,
           struct redis_text *ret_piece, struct redis_login *ret_login, struct err *err)
{
	size_t n = 0;
	bool is_body;
	int e = 0;

	forget_given(r);
	*ret_used = 0;
	while (*ret_used < len) {
		if (r->mode == REDIS_PASSES)
			return pass(r, data, len, ret_used, ret_piece, err);
		if (r->state == REDIS_LINE) {
			e = redis_read_line(r, data, len, ret_used, ret_piece, ret_login, err);
			if (e != REDIS_MORE)
				return e;
			continue;
		}
		is_body = r->state == REDIS_BODY;
		e = redis_step(r, data + *ret_used, len - *ret_used, &n, err);
		e = e == 0 ? hold(r, data + *ret_used, n, is_body, err) : e;
		if (e < 0)
			return e;
		*ret_used += n;
		if (is_complete(r) && r->mode == REDIS_GATHERS)
			return end_gathered(r, ret_piece, ret_login);
		if (is_complete(r))
			start_command(r);       /* an empty array: passes unchanged */
		else if (r->mode != REDIS_PASSES)
			continue;
		return give_held(r, ret_piece);
	}
	return REDIS_MORE;
}
