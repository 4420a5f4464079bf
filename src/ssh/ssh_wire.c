/* ssh_wire.c - see ssh_wire.h. */
#include "ssh/ssh_wire.h"

#include <string.h>

static bool
take(struct http_text *rest, size_t n, struct http_text *ret_v)
{
	if (rest->len < n)
		return false;
	*ret_v = (struct http_text){ rest->at, n };
	rest->at += n;
	rest->len -= n;
	return true;
}

bool
ssh_get_u8(struct http_text *rest, uint8_t *ret_v)
{
	struct http_text v;

	if (!take(rest, 1, &v))
		return false;
	*ret_v = (uint8_t)v.at[0];
	return true;
}

bool
ssh_get_bool(struct http_text *rest, bool *ret_v)
{
	uint8_t v;

	if (!ssh_get_u8(rest, &v) || v > 1)
		return false;
	*ret_v = v == 1;
	return true;
}

bool
ssh_get_u32(struct http_text *rest, uint32_t *ret_v)
{
	const unsigned char *at;
	struct http_text v;

	if (!take(rest, 4, &v))
		return false;
	at = (const unsigned char *)v.at;
	*ret_v = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	return true;
}

bool
ssh_get_string(struct http_text *rest, struct http_text *ret_v)
{
	uint32_t len;

	return ssh_get_u32(rest, &len) && take(rest, len, ret_v);
}

bool
ssh_get_sized(struct http_text *rest, size_t min, size_t max, struct http_text *ret_v)
{
	return ssh_get_string(rest, ret_v) && ret_v->len >= min && ret_v->len <= max;
}

bool
ssh_get_name(struct http_text *rest, size_t max, char *out)
{
	struct http_text v;

	if (!ssh_get_sized(rest, 1, max, &v) || memchr(v.at, '\0', v.len) != NULL)
		return false;
	memcpy(out, v.at, v.len);
	out[v.len] = '\0';
	return true;
}

bool
ssh_get_mpint(struct http_text *rest, struct http_text *ret_v)
{
	struct http_text v;

	if (!ssh_get_sized(rest, 1, SSH_BLOB_MAX, &v) || ((unsigned char)v.at[0] & 0x80) != 0)
		return false;
	if (v.at[0] == 0) {
		v.at++;
		v.len--;
		if (v.len == 0 || ((unsigned char)v.at[0] & 0x80) == 0)
			return false;
	}
	*ret_v = v;
	return true;
}

#define NEW_KEYS 21

size_t
ssh_clear_len(struct http_text said)
{
	static const char version[] = "SSH-";
	struct http_text rest = said, packet;
	bool began = false;
	const char *end;

	while (!began) {
		end = rest.len == 0 ? NULL : memchr(rest.at, '\n', rest.len);
		if (end == NULL)
			return 0;
		began = rest.len >= sizeof(version) - 1 && memcmp(rest.at, version, sizeof(version) - 1) == 0;
		rest.len -= (size_t)(end + 1 - rest.at);
		rest.at = end + 1;
	}
	/* The length of its padding, and then its type. */
	for (struct http_text next = rest; ssh_get_string(&next, &packet) && packet.len >= 2; ) {
		rest = next;
		if (packet.at[1] == NEW_KEYS)
			break;
	}
	return said.len - rest.len;
}

void
ssh_put_u8(struct buf *b, uint8_t v)
{
	buf_put(b, &v, 1);
}

void
ssh_put_u32(struct buf *b, uint32_t v)
{
	const unsigned char bytes[4] = { (unsigned char)(v >> 24), (unsigned char)(v >> 16),
	                                 (unsigned char)(v >> 8), (unsigned char)v };

	buf_put(b, bytes, sizeof(bytes));
}

void
ssh_put_string(struct buf *b, struct http_text v)
{
	ssh_put_u32(b, (uint32_t)v.len);
	buf_put(b, v.at, v.len);
}

void
ssh_put_str(struct buf *b, const char *v)
{
	ssh_put_string(b, (struct http_text){ v, strlen(v) });
}

void
ssh_put_mpint(struct buf *b, struct http_text v)
{
	bool high;

	while (v.len > 0 && v.at[0] == 0) {
		v.at++;
		v.len--;
	}
	high = v.len > 0 && ((unsigned char)v.at[0] & 0x80) != 0;
	ssh_put_u32(b, (uint32_t)(v.len + high));
	buf_put(b, "", high);
	buf_put(b, v.at, v.len);
}
