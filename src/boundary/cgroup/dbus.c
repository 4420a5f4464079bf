/* dbus.c - see dbus.h. */
#include "boundary/cgroup/dbus.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/io.h"
#include "base/own.h"

enum { CALL = 1, ANSWER = 2, FAILURE = 3 };
enum { FIELD_PATH = 1, FIELD_INTERFACE = 2, FIELD_MEMBER = 3, FIELD_DESTINATION = 6, FIELD_SIGNATURE = 8 };

#define HEAD_BYTES 16                   /* up to the length of the fields, and with it */
#define LINE_BYTES 256                  /* of the login */

/* ---- writing ---- */

static void
put_byte(struct buf *b, unsigned char byte)
{
	buf_put(b, &byte, 1);
}

static void
align(struct buf *b, size_t to)
{
	while (!buf_failed(b) && b->len % to != 0)
		put_byte(b, 0);
}

static void
put_number(struct buf *b, uint32_t n)
{
	align(b, 4);
	buf_put_u32(b, n);
}

static void
put_string(struct buf *b, const char *text)
{
	put_number(b, (uint32_t)strlen(text));
	buf_put(b, text, strlen(text) + 1);
}

static void
put_signature(struct buf *b, const char *text)
{
	put_byte(b, (unsigned char)strlen(text));
	buf_put(b, text, strlen(text) + 1);
}

/* An array: its length comes first, and is known at its end. */
static size_t
begin_array(struct buf *b, size_t items_align)
{
	put_number(b, 0);
	align(b, items_align);
	return b->len;
}

/* WHERE: the offset of the length. */
static void
set_number(struct buf *b, size_t where, size_t value)
{
	for (size_t i = 0; !buf_failed(b) && i < 4; i++)
		b->data[where + i] = (unsigned char)(value >> (8 * i));
}

static void
put_field(struct buf *b, unsigned char field, const char *type, const char *text)
{
	align(b, 8);
	put_byte(b, field);
	put_signature(b, type);
	if (type[0] == 'g')
		put_signature(b, text);
	else
		put_string(b, text);
}

static void
put_call(struct buf *b, uint32_t serial, const char *destination, const char *path, const char *interface,
         const char *member, const char *signature, const struct buf *body)
{
	OWN(buf_free) struct buf m = BUF(DBUS_MESSAGE_MAX);
	size_t start;

	buf_put(&m, (const unsigned char[]){ 'l', CALL, 0, 1 }, 4);
	put_number(&m, body != NULL ? (uint32_t)body->len : 0);
	put_number(&m, serial);
	start = begin_array(&m, 4);
	put_field(&m, FIELD_PATH, "o", path);
	put_field(&m, FIELD_INTERFACE, "s", interface);
	put_field(&m, FIELD_MEMBER, "s", member);
	if (destination != NULL)
		put_field(&m, FIELD_DESTINATION, "s", destination);
	if (body != NULL)
		put_field(&m, FIELD_SIGNATURE, "g", signature);
	set_number(&m, HEAD_BYTES - 4, m.len - start);
	align(&m, 8);
	if (body != NULL)
		buf_put(&m, body->data, body->len);
	if (buf_failed(&m))
		buf_add(b, b->max + 1);
	else
		buf_put(b, m.data, m.len);
}

void
dbus_put_hello(struct buf *b, uint32_t serial)
{
	put_call(b, serial, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "Hello", NULL, NULL);
}

static void
put_property(struct buf *b, const char *name, const char *type)
{
	align(b, 8);
	put_string(b, name);
	put_signature(b, type);
}

void
dbus_put_scope(struct buf *b, uint32_t serial, const char *name, pid_t pid, bool via_bus)
{
	OWN(buf_free) struct buf body = BUF(DBUS_MESSAGE_MAX);
	size_t properties, pids;

	put_string(&body, name);
	put_string(&body, "fail");
	align(&body, 4);
	properties = body.len;
	(void)begin_array(&body, 8);
	put_property(&body, "Description", "s");
	put_string(&body, "A cell of cloister");
	put_property(&body, "Delegate", "b");
	put_number(&body, 1);
	/* It goes with its last process, however that ended. */
	put_property(&body, "CollectMode", "s");
	put_string(&body, "inactive-or-failed");
	put_property(&body, "PIDs", "au");
	pids = begin_array(&body, 4);
	put_number(&body, (uint32_t)pid);
	set_number(&body, pids - 4, 4);
	set_number(&body, properties, body.len - (properties + 4 + (properties + 4) % 8));
	/* No further units. */
	(void)begin_array(&body, 8);
	if (buf_failed(&body))
		buf_add(b, b->max + 1);
	else
		put_call(b, serial, via_bus ? "org.freedesktop.systemd1" : NULL, "/org/freedesktop/systemd1",
		         "org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))", &body);
}

/* ---- speaking ---- */

/* A line of the login, which ends with CR LF. */
static int
read_line(int socket, char line[LINE_BYTES])
{
	for (size_t n = 0; n + 1 < LINE_BYTES;) {
		int r = read_exactly(socket, line + n, 1, NULL);

		if (r < 0)
			return r;
		line[++n] = '\0';
		if (n >= 2 && strcmp(line + n - 2, "\r\n") == 0)
			return 0;
	}
	return -EBADMSG;
}

int
dbus_log_in(int socket, uid_t uid)
{
	char id[16], hex[2 * sizeof(id) + 1], line[LINE_BYTES];
	int n, r;

	snprintf(id, sizeof(id), "%u", (unsigned)uid);
	codec_hex((const unsigned char *)id, strlen(id), hex);
	/* A NUL comes before everything. */
	n = snprintf(line, sizeof(line), "%cAUTH EXTERNAL %s\r\n", '\0', hex);
	r = write_all(socket, line, (size_t)n, NULL);
	r = r == 0 ? read_line(socket, line) : r;
	if (r == 0 && strncmp(line, "OK ", 3) != 0)
		r = -EACCES;
	return r == 0 ? write_all(socket, "BEGIN\r\n", strlen("BEGIN\r\n"), NULL) : r;
}

static uint32_t
number_at(const unsigned char *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The type of the next message, whose contents do not matter. */
static int
read_message(int socket)
{
	unsigned char head[HEAD_BYTES], rest[4096];
	size_t fields, left;
	int r = read_exactly(socket, head, sizeof(head), NULL);

	if (r < 0)
		return r;
	fields = number_at(head + 12);
	left = number_at(head + 4);
	if (head[0] != 'l' || fields > DBUS_MESSAGE_MAX || left > DBUS_MESSAGE_MAX)
		return -EBADMSG;
	left += fields + (8 - fields % 8) % 8;
	for (; r == 0 && left > 0; left -= left < sizeof(rest) ? left : sizeof(rest))
		r = read_exactly(socket, rest, left < sizeof(rest) ? left : sizeof(rest), NULL);
	return r < 0 ? r : head[1];
}

int
dbus_await_answer(int socket)
{
	int type;

	do
		type = read_message(socket);
	while (type >= 0 && type != ANSWER && type != FAILURE);
	return type == FAILURE ? -EREMOTEIO : type < 0 ? type : 0;
}
