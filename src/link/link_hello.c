/* link_hello.c - see link_hello.h. */
#include "link/link_hello.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "ipc/link_channel.h"

#define MEMBERS 5

/* Who sends it, and what it has, in its order. */
static const struct hello_row {
	enum link_hello type;
	bool from_service;
	size_t at[MEMBERS + 1];
} rows[] = {
#define AT(member) (offsetof(struct link_hello_message, member))
	{ LINK_ENROL, false, { AT(secret), AT(name), AT(home), AT(pool), AT(pem), 0 } },
	{ LINK_ENROLLED, true, { AT(home), AT(id), AT(pem), 0 } },
	{ LINK_WELCOME, true, { AT(home), 0 } },
	{ LINK_REFUSED, true, { AT(why), 0 } },
};

static const struct hello_row *
find_row(uint32_t type)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].type == type)
			return &rows[i];
	return NULL;
}

static const char **
member(struct link_hello_message *message, size_t at)
{
	return (const char **)((char *)message + at);
}

void
link_hello_put(struct buf *out, const struct link_hello_message *message)
{
	const struct hello_row *row = find_row(message->type);
	struct link_hello_message copy = *message;
	OWN(buf_free) struct buf body = BUF(LINK_HELLO_MAX);

	buf_put_u32(&body, message->type);
	for (const size_t *at = row->at; *at != 0; at++)
		buf_put_str(&body, *member(&copy, *at));
	out->failed |= body.failed;
	buf_put_u32(out, (uint32_t)body.len);
	buf_put(out, body.data, body.len);
}

/* What kind of thing each member is. */
static bool
is_valid(const struct link_hello_message *m)
{
	return (m->secret == NULL || link_is_hex(m->secret, LINK_HEX)) &&
	       (m->name == NULL || link_is_name(m->name, LINK_NAME_MAX)) &&
	       (m->home == NULL || link_is_name(m->home, LINK_HOME_MAX)) &&
	       (m->pool == NULL || *m->pool == '\0' || link_is_name(m->pool, LINK_POOL_MAX)) &&
	       (m->id == NULL || link_is_hex(m->id, LINK_ID_LEN)) && (m->pem == NULL || strlen(m->pem) < LINK_CERT_MAX) &&
	       (m->why == NULL || strlen(m->why) < LINK_CHANNEL_TEXT_MAX);
}

int
link_hello_get(const struct buf *in, bool from_service, struct link_hello_message *ret_message, size_t *ret_len)
{
	struct link_hello_message m = {0};
	const struct hello_row *row;
	uint32_t len, type;
	struct buf b;

	if (in->len < sizeof(len))
		return 0;
	memcpy(&len, in->data, sizeof(len));
	len = le32toh(len);
	if (len > LINK_HELLO_MAX)
		return -EBADMSG;
	if (in->len - sizeof(len) < len)
		return 0;
	buf_init_borrowed(&b, in->data + sizeof(len), len);
	if (buf_get_u32(&b, &type) < 0 || (row = find_row(type)) == NULL || row->from_service != from_service)
		return -EBADMSG;
	m.type = row->type;
	for (const size_t *at = row->at; *at != 0; at++)
		if (buf_get_str(&b, member(&m, *at)) < 0)
			return -EBADMSG;
	if (buf_left(&b) != 0 || !is_valid(&m))
		return -EBADMSG;
	*ret_message = m;
	*ret_len = sizeof(len) + len;
	return 1;
}
