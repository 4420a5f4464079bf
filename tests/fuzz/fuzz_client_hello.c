/* fuzz_client_hello.c - the first bytes of a TLS connection.
 *
 * What is a hello is one for every way of cutting it, into reads or into records. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "http/client_hello.h"
#include "http/http_parts.h"

static int
parse(const uint8_t *data, size_t size, struct client_hello *ret_hello)
{
	OWN(freep) uint8_t *copy = malloc(size);

	assert(copy != NULL || size == 0);
	memcpy(copy, data, size);
	return client_hello_parse(copy, size, ret_hello);
}

/* The handshake's bytes up to the end of the hello, in records of SIZE bytes. */
static size_t
split(const uint8_t *data, size_t want, size_t size, uint8_t *out)
{
	size_t n = 0, left = 0, done = 0, room = 0;

	for (size_t at = 0; done < want; at++) {
		if (left == 0) {
			left = (size_t)data[at + 3] << 8 | data[at + 4];
			at += 5;
		}
		if (room == 0) {
			room = want - done < size ? want - done : size;
			memcpy(out + n, (uint8_t[]){ 22, 3, 3, (uint8_t)(room >> 8), (uint8_t)room }, 5);
			n += 5;
		}
		out[n++] = data[at];
		left--;
		room--;
		done++;
	}
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) uint8_t *out = malloc(6 * (size_t)CLIENT_HELLO_MAX);
	struct client_hello hello, again;
	size_t want = 0, n, at;
	int r = parse(data, size, &hello);

	assert(r == 0 || r == -EAGAIN || r == -EBADMSG);
	for (n = 0; n < size && n < 2000; n += 1 + n / 16) {
		int cut = parse(data, n, &again);

		/* Refused early, it is refused for good. */
		assert(cut == -EAGAIN || cut == r);
	}
	if (r < 0)
		return 0;
	assert(hello.sni[0] == '\0' ||
	       http_host_is_canonical((struct http_text){ hello.sni, strlen(hello.sni) }));
	/* Its length stands in its first four bytes, wherever those are. */
	for (size_t i = 0, left = 0, o = 0; i < 4; o++) {
		if (left == 0) {
			left = (size_t)data[o + 3] << 8 | data[o + 4];
			o += 5;
		}
		if (i++ > 0)
			want = want << 8 | data[o];
		left--;
	}
	want += 4;
	for (at = 3; at < 400; at += 131) {
		n = split(data, want, at, out);
		if (n > CLIENT_HELLO_MAX)
			continue;
		assert(parse(out, n, &again) == 0);
		assert(memcmp(&again, &hello, sizeof(hello)) == 0);
	}
	return 0;
}
