/* pg.c - see pg.h. */
#include "wire/pg.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"

#define LENGTH_SIZE 4
#define HEADER_SIZE 8                   /* length and code */
#define CODE_CANCEL 80877102u
#define CODE_SSL 80877103u
#define CODE_GSS 80877104u
#define MAJOR 3
#define OPTION_PREFIX "_pq_."

static uint32_t
get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void
put_u32(struct buf *b, uint32_t v)
{
	const unsigned char bytes[4] = { (unsigned char)(v >> 24), (unsigned char)(v >> 16),
	                                 (unsigned char)(v >> 8), (unsigned char)v };

	buf_put(b, bytes, sizeof(bytes));
}

static void
put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text) + 1);
}

/* ---- parameters ---- */

static bool
has_parameter(const struct pg_start *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->parameters[i].name, name) == 0)
			return true;
	return false;
}

/* Add a parameter.  A repeated name is refused: another server might use the other value. */
static int
add_parameter(struct pg_start *s, const char *name, const char *value, struct err *err)
{
	const char **own = strcmp(name, "user") == 0 ? &s->user :
	                   strcmp(name, "database") == 0 ? &s->database : NULL;

	if (name[0] == '\0' || (own != NULL ? *own != NULL : has_parameter(s, name)))
		return err_set(err, EBADMSG, "a parameter of the login is there twice");
	if (own != NULL) {
		*own = value;
		return 0;
	}
	if (s->n == PG_PARAMETERS_MAX)
		return err_set(err, EBADMSG, "the login has over %d parameters", PG_PARAMETERS_MAX);
	s->parameters[s->n++] = (struct pg_parameter){ name, value };
	return 0;
}

static int
check_start(struct pg_start *s, struct err *err)
{
	if (s->user == NULL || s->user[0] == '\0')
		return err_set(err, EBADMSG, "the login names no user");
	if (s->database == NULL || s->database[0] == '\0')
		s->database = s->user;
	return 0;
}

static int
add_option(struct pg_first *f, const char *name, struct err *err)
{
	if (f->n_options == PG_PARAMETERS_MAX)
		return err_set(err, EBADMSG, "the login has over %d parameters", PG_PARAMETERS_MAX);
	f->options[f->n_options++] = name;
	return 0;
}

/* NAME, NUL, VALUE, NUL, and so on, and a NUL. */
static int
read_parameters(const char *at, size_t len, struct pg_first *f, struct err *err)
{
	const char *end = at + len - 1;
	int r = 0;

	if (len == 0 || *end != '\0')
		return err_set(err, EBADMSG, "the login has no end");
	while (r == 0 && at < end) {
		const char *name = at, *value = name + strlen(name) + 1;

		if (value >= end)
			return err_set(err, EBADMSG, "a parameter of the login has no value");
		at = value + strlen(value) + 1;
		r = strncmp(name, OPTION_PREFIX, sizeof(OPTION_PREFIX) - 1) == 0
		    ? add_option(f, name, err) : add_parameter(&f->start, name, value, err);
	}
	if (r == 0 && at != end)
		r = err_set(err, EBADMSG, "the login has no end");
	return r == 0 ? check_start(&f->start, err) : r;
}

/* ---- messages ---- */

/* LENGTH includes itself. */
static int
await(size_t have, size_t want, size_t *ret_need)
{
	*ret_need = want;
	return have < want ? -EAGAIN : 0;
}

static int
read_code(const unsigned char *data, size_t len, struct pg_first *f, struct err *err)
{
	uint32_t code = get_u32(data + LENGTH_SIZE);

	if ((code == CODE_SSL || code == CODE_GSS) && len == HEADER_SIZE) {
		f->kind = code == CODE_SSL ? PG_SSL : PG_GSS;
		return 0;
	}
	if (code == CODE_CANCEL && len > HEADER_SIZE + 4 && len <= HEADER_SIZE + 4 + PG_KEY_MAX) {
		f->kind = PG_CANCEL;
		f->pid = get_u32(data + HEADER_SIZE);
		f->key = data + HEADER_SIZE + 4;
		f->n_key = len - HEADER_SIZE - 4;
		return 0;
	}
	if (code >> 16 != MAJOR)
		return err_set(err, EBADMSG, "this is no connection of Postgres, version 3");
	f->kind = PG_START;
	f->minor = code & 0xffff;
	return read_parameters((const char *)data + HEADER_SIZE, len - HEADER_SIZE, f, err);
}

int
pg_first_read(const unsigned char *data, size_t len, size_t *ret_need,
              struct pg_first *ret_first, struct err *err)
{
	uint32_t length;
	int r = await(len, HEADER_SIZE, ret_need);

	if (r < 0)
		return r;
	length = get_u32(data);
	if (length < HEADER_SIZE || length > PG_FIRST_MAX)
		return err_set(err, EBADMSG, "this is no connection of Postgres");
	r = await(len, length, ret_need);
	if (r < 0)
		return r;
	*ret_first = (struct pg_first){0};
	return read_code(data, length, ret_first, err);
}

int
pg_password_read(const unsigned char *data, size_t len, size_t *ret_need,
                 const char **ret_password, struct err *err)
{
	uint32_t length;
	int r = await(len, 1 + LENGTH_SIZE, ret_need);

	if (r < 0)
		return r;
	length = get_u32(data + 1);
	if (data[0] != 'p' || length <= LENGTH_SIZE || length > LENGTH_SIZE + PG_PASSWORD_MAX + 1)
		return err_set(err, EBADMSG, "the client sends no password");
	r = await(len, 1 + length, ret_need);
	if (r < 0)
		return r;
	data += 1 + LENGTH_SIZE;
	if (memchr(data, '\0', length - LENGTH_SIZE) != data + length - LENGTH_SIZE - 1)
		return err_set(err, EBADMSG, "the password has no end");
	*ret_password = (const char *)data;
	return 0;
}

/* ---- writing ---- */

void
pg_put_message(struct buf *b, char type, const void *data, size_t len)
{
	buf_put(b, &type, 1);
	put_u32(b, (uint32_t)(LENGTH_SIZE + len));
	buf_put(b, data, len);
}

static void
put_auth(struct buf *b, uint32_t code)
{
	buf_put(b, "R", 1);
	put_u32(b, HEADER_SIZE);
	put_u32(b, code);
}

void
pg_put_ask_password(struct buf *b)
{
	put_auth(b, 3);
}

void
pg_put_ok(struct buf *b)
{
	put_auth(b, 0);
}

void
pg_put_error(struct buf *b, const char *code, const char *text)
{
	static const char severity[] = "SFATAL\0VFATAL";        /* and its NUL */

	buf_put(b, "E", 1);
	put_u32(b, (uint32_t)(LENGTH_SIZE + sizeof(severity) + 1 + strlen(code) + 1 + 1 +
	                      strlen(text) + 1 + 1));
	buf_put(b, severity, sizeof(severity));
	buf_put(b, "C", 1);
	put_text(b, code);
	buf_put(b, "M", 1);
	put_text(b, text);
	buf_put(b, "", 1);
}

void
pg_put_negotiate(struct buf *b, const struct pg_first *first)
{
	size_t len = 0;

	for (size_t i = 0; i < first->n_options; i++)
		len += strlen(first->options[i]) + 1;
	buf_put(b, "v", 1);
	put_u32(b, (uint32_t)(LENGTH_SIZE + 4 + 4 + len));
	put_u32(b, 0);
	put_u32(b, (uint32_t)first->n_options);
	for (size_t i = 0; i < first->n_options; i++)
		put_text(b, first->options[i]);
}

void
pg_put_ask_tls(struct buf *b)
{
	put_u32(b, HEADER_SIZE);
	put_u32(b, CODE_SSL);
}

void
pg_put_cancel(struct buf *b, uint32_t pid, const unsigned char *key, size_t n_key)
{
	put_u32(b, (uint32_t)(HEADER_SIZE + 4 + n_key));
	put_u32(b, CODE_CANCEL);
	put_u32(b, pid);
	buf_put(b, key, n_key);
}

void
pg_put_start(struct buf *b, const struct pg_start *start)
{
	size_t len = HEADER_SIZE + sizeof("user") + strlen(start->user) + 1 + sizeof("database") +
	             strlen(start->database) + 1 + 1;

	for (size_t i = 0; i < start->n; i++)
		len += strlen(start->parameters[i].name) + 1 + strlen(start->parameters[i].value) + 1;
	put_u32(b, (uint32_t)len);
	put_u32(b, (uint32_t)MAJOR << 16);
	put_text(b, "user");
	put_text(b, start->user);
	put_text(b, "database");
	put_text(b, start->database);
	for (size_t i = 0; i < start->n; i++) {
		put_text(b, start->parameters[i].name);
		put_text(b, start->parameters[i].value);
	}
	buf_put(b, "", 1);
}

/* ---- between processes ---- */

void
pg_start_encode(struct buf *b, const struct pg_start *start, const char *password)
{
	buf_put_str(b, start->user);
	buf_put_str(b, start->database);
	buf_put_str(b, password);
	buf_put_u32(b, (uint32_t)start->n);
	for (size_t i = 0; i < start->n; i++) {
		buf_put_str(b, start->parameters[i].name);
		buf_put_str(b, start->parameters[i].value);
	}
}

int
pg_start_decode(struct buf *b, struct pg_start *ret_start, const char **ret_password)
{
	struct pg_start s = {0};
	const char *name, *value;
	size_t size = b->len;
	uint32_t n;
	int r = 0;

	if (buf_get_str(b, &s.user) < 0 || buf_get_str(b, &s.database) < 0 ||
	    buf_get_str(b, ret_password) < 0 || buf_get_u32(b, &n) < 0 || n > PG_PARAMETERS_MAX ||
	    s.user[0] == '\0' || s.database[0] == '\0' || strlen(*ret_password) > PG_PASSWORD_MAX ||
	    size > 2 * PG_FIRST_MAX + PG_PASSWORD_MAX)
		return -EBADMSG;
	for (; r == 0 && n > 0; n--) {
		if (buf_get_str(b, &name) < 0 || buf_get_str(b, &value) < 0 ||
		    strncmp(name, OPTION_PREFIX, sizeof(OPTION_PREFIX) - 1) == 0)
			return -EBADMSG;
		r = add_parameter(&s, name, value, NULL);
	}
	if (r < 0 || buf_left(b) != 0)
		return -EBADMSG;
	*ret_start = s;
	return 0;
}
