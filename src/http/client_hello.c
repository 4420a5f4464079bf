/* client_hello.c - see client_hello.h.  RFC 8446, 4.1.2 and 5.1. */
#include "http/client_hello.h"

#include <errno.h>
#include <string.h>

enum { RECORD_HANDSHAKE = 22, RECORD_MAX = 16384, CLIENT_HELLO = 1 };
enum { EXTENSION_SNI = 0, EXTENSION_ALPN = 16, EXTENSION_ECH = 0xfe0d,
       EXTENSION_ESNI = 0xffce };

/* Unread bytes.  Reading past the end sets BAD and returns nothing. */
struct bytes {
	const unsigned char *at;
	size_t len;
	bool bad;
};

static struct bytes
take(struct bytes *from, size_t len)
{
	struct bytes part = { from->at, len, false };

	if (from->bad || len > from->len) {
		from->bad = true;
		return (struct bytes){ from->at, 0, true };
	}
	from->at += len;
	from->len -= len;
	return part;
}

static size_t
take_number(struct bytes *from, size_t size)
{
	struct bytes part = take(from, size);
	size_t n = 0;

	for (size_t i = 0; i < part.len; i++)
		n = n << 8 | part.at[i];
	return n;
}

/* A vector with its length in SIZE bytes before it. */
static struct bytes
take_vector(struct bytes *from, size_t size)
{
	size_t len = take_number(from, size);

	return take(from, len);
}

static bool
read_sni(struct bytes body, struct client_hello *hello)
{
	struct bytes list = take_vector(&body, 2), name;
	uint16_t port;
	size_t type;

	type = take_number(&list, 1);
	name = take_vector(&list, 2);
	if (body.bad || list.bad || body.len > 0 || list.len > 0 || type != 0)
		return false;
	return http_authority_parse((struct http_text){ (const char *)name.at, name.len },
	                            hello->sni, &port, NULL) == 0 &&
		port == 0 && hello->sni[0] != '[';
}

static bool
read_alpn(struct bytes body, struct client_hello *hello)
{
	struct bytes list = take_vector(&body, 2), name;

	if (body.bad || body.len > 0 || list.len == 0)
		return false;
	while (list.len > 0) {
		name = take_vector(&list, 1);
		if (list.bad || name.len == 0)
			return false;
		if (name.len == 2 && memcmp(name.at, "h2", 2) == 0)
			hello->offers_h2 = true;
		if (name.len == 8 && memcmp(name.at, "http/1.1", 8) == 0)
			hello->offers_h1 = true;
	}
	return true;
}

static bool
read_extensions(struct bytes list, struct client_hello *hello)
{
	bool has_sni = false, has_alpn = false;

	while (list.len > 0) {
		size_t type = take_number(&list, 2);
		struct bytes body = take_vector(&list, 2);

		if (list.bad)
			return false;
		/* Two readers might read a repeated extension differently. */
		if (type == EXTENSION_SNI && (has_sni || !read_sni(body, hello)))
			return false;
		if (type == EXTENSION_ALPN && (has_alpn || !read_alpn(body, hello)))
			return false;
		has_sni |= type == EXTENSION_SNI;
		has_alpn |= type == EXTENSION_ALPN;
		hello->has_ech |= type == EXTENSION_ECH || type == EXTENSION_ESNI;
	}
	return true;
}

/* The message behind its type and length. */
static bool
read_hello(struct bytes body, struct client_hello *hello)
{
	struct bytes session, suites, compression, extensions;

	if (take_number(&body, 2) >> 8 != 3)    /* SSL 3 to TLS 1.2; TLS 1.3 also has 1.2 here */
		return false;
	take(&body, 32);
	session = take_vector(&body, 1);
	suites = take_vector(&body, 2);
	compression = take_vector(&body, 1);
	if (body.bad || session.len > 32 || suites.len == 0 || suites.len % 2 != 0 ||
	    compression.len == 0)
		return false;
	if (body.len == 0)
		return true;
	extensions = take_vector(&body, 2);
	return !body.bad && body.len == 0 && read_extensions(extensions, hello);
}

/* The bytes of the first handshake record.  -EAGAIN: it is incomplete. */
static int
take_record(struct bytes *from, struct bytes *ret_record)
{
	size_t len;

	if ((from->len > 0 && from->at[0] != RECORD_HANDSHAKE) ||
	    (from->len > 1 && from->at[1] != 3))
		return -EBADMSG;
	if (from->len < 5)
		return -EAGAIN;
	len = (size_t)from->at[3] << 8 | from->at[4];
	if (len == 0 || len > RECORD_MAX)
		return -EBADMSG;
	if (from->len - 5 < len)
		return -EAGAIN;
	take(from, 5);
	*ret_record = take(from, len);
	return 0;
}

/* Returns 0 if the message is complete.  The hello must fill its records: a client must not send
 * anything else before the response. */
static int
check_message(const unsigned char *at, size_t len)
{
	size_t want;

	if (len > 0 && at[0] != CLIENT_HELLO)
		return -EBADMSG;
	if (len < 4)
		return -EAGAIN;
	want = 4 + ((size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3]);
	if (want > CLIENT_HELLO_MAX || len > want)
		return -EBADMSG;
	return len < want ? -EAGAIN : 0;
}

/* Join a hello that spans records into JOINED, without the record headers. */
static int
join_records(struct bytes from, unsigned char joined[CLIENT_HELLO_MAX],
             struct bytes *ret_message)
{
	struct bytes record;
	size_t len = 0;
	int r;

	do {
		r = take_record(&from, &record);
		if (r < 0)
			return r;
		memcpy(joined + len, record.at, record.len);
		len += record.len;
		r = check_message(joined, len);
	} while (r == -EAGAIN);
	*ret_message = (struct bytes){ joined, len, false };
	return r;
}

static int
parse_message(struct bytes message, struct client_hello *ret_hello)
{
	struct client_hello hello = {0};

	take(&message, 4);
	if (!read_hello(message, &hello))
		return -EBADMSG;
	*ret_hello = hello;
	return 0;
}

static int
parse_joined(struct bytes from, struct client_hello *ret_hello)
{
	unsigned char joined[CLIENT_HELLO_MAX];
	struct bytes message;
	int r = join_records(from, joined, &message);

	return r < 0 ? r : parse_message(message, ret_hello);
}

int
client_hello_parse(const unsigned char *data, size_t len, struct client_hello *ret_hello)
{
	struct bytes from = { data, len < CLIENT_HELLO_MAX ? len : CLIENT_HELLO_MAX, false };
	struct bytes rest = from, message;
	int r = take_record(&rest, &message);

	if (r == 0)
		r = check_message(message.at, message.len);
	if (r == 0)
		return parse_message(message, ret_hello);
	if (r == -EAGAIN && rest.len > 0)
		r = parse_joined(from, ret_hello);
	return r == -EAGAIN && len >= CLIENT_HELLO_MAX ? -EBADMSG : r;
}
