/* fuzz_authority_path.c - a path, or after an odd first byte a host and port.
 *
 * Its canonical form is its own canonical form, and nothing else is.  No server that decodes
 * more than it should finds a dot segment in it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "fuzz.h"
#include "http/http_parts.h"

static void
check_authority(struct http_text text)
{
	char host[HTTP_HOST_MAX + 1], again[HTTP_HOST_MAX + 1];
	bool canonical = http_host_is_canonical(text);
	uint16_t port, port_again;

	if (http_authority_parse(text, host, &port, NULL) < 0) {
		assert(!canonical);
		return;
	}
	assert(strlen(host) > 0 && strlen(host) <= HTTP_HOST_MAX);
	assert(canonical == (port == 0 && http_text_is(text, host)));
	assert(http_host_is_canonical((struct http_text){ host, strlen(host) }));
	assert(http_authority_parse((struct http_text){ host, strlen(host) }, again, &port_again,
	                            NULL) == 0);
	assert(strcmp(host, again) == 0 && port_again == 0);
}

/* ---- a server that decodes everything it can, again and again ---- */

static size_t
decode_escapes(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++, n++) {
		bool is_escape = text[i] == '%' && i + 2 < len && codec_hex_value(text[i + 1]) >= 0 &&
			codec_hex_value(text[i + 2]) >= 0;

		text[n] = text[i];
		if (is_escape) {
			text[n] = (char)(codec_hex_value(text[i + 1]) << 4 | codec_hex_value(text[i + 2]));
			i += 2;
		}
	}
	return n;
}

static size_t
decode_overlong(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char a = (unsigned char)text[i], b = i + 1 < len ? (unsigned char)text[i + 1] : 0;

		if ((a & 0xfe) == 0xc0 && (b & 0xc0) == 0x80) {
			text[n++] = (char)((a & 1) << 6 | (b & 0x3f));
			i++;
		} else {
			text[n++] = text[i];
		}
	}
	return n;
}

static size_t
drop_controls(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] > ' ' && text[i] != 0x7f)
			text[n++] = text[i] == '\\' ? '/' : text[i];
	return n;
}

static bool
has_dot_segment(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		size_t n = 0;

		if (text[i] != '/')
			continue;
		while (n < 2 && i + 1 + n < len && text[i + 1 + n] == '.')
			n++;
		if (n > 0 && (i + 1 + n == len || text[i + 1 + n] == '/' || text[i + 1 + n] == ';'))
			return true;
	}
	return false;
}

static void
check_readings(const char *path, size_t len)
{
	const char *query = memchr(path, '?', len);
	size_t n = query != NULL ? (size_t)(query - path) : len, before;
	OWN(freep) char *text = malloc(len);

	memcpy(text, path, len);
	do {
		before = n;
		assert(!has_dot_segment(text, n));
		n = decode_escapes(text, n);
		assert(!has_dot_segment(text, n));
		n = decode_overlong(text, n);
		assert(!has_dot_segment(text, n));
		n = drop_controls(text, n);
	} while (n < before);
	assert(!has_dot_segment(text, n));
}

static void
check_path(struct http_text text)
{
	size_t room = http_path_room(text);
	OWN(freep) char *out = malloc(room), *again = malloc(room);
	bool canonical = http_path_is_canonical(text);
	size_t len, len_again;

	if (http_path_normalise(text, out, room, &len, NULL) < 0) {
		assert(!canonical);
		return;
	}
	assert(len > 0 && len <= room && out[0] == '/');
	assert(canonical == (len == text.len && memcmp(out, text.at, len) == 0));
	assert(http_path_is_canonical((struct http_text){ out, len }));
	assert(http_path_normalise((struct http_text){ out, len }, again, len, &len_again, NULL) == 0);
	assert(len_again == len && memcmp(out, again, len) == 0);
	check_readings(out, len);
	if (room > text.len)
		return;
	/* In its own memory. */
	memcpy(again, text.at, text.len);
	assert(http_path_normalise((struct http_text){ again, text.len }, again, text.len, &len_again,
	                           NULL) == 0);
	assert(len_again == len && memcmp(out, again, len) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_text text = { (const char *)data + 1, size - 1 };

	if (size == 0)
		return 0;
	if ((data[0] & 1) != 0)
		check_authority(text);
	else
		check_path(text);
	return 0;
}
