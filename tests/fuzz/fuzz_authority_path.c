/* fuzz_authority_path.c - a path, or after an odd first byte a host and port.
 *
 * Its canonical form is its own canonical form, and nothing else is. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

static void
check_path(struct http_text text)
{
	OWN(freep) char *out = malloc(text.len), *again = malloc(text.len);
	bool canonical = http_path_is_canonical(text);
	size_t len, len_again;

	if (http_path_normalise(text, out, text.len, &len, NULL) < 0) {
		assert(!canonical);
		return;
	}
	assert(len > 0 && len <= text.len && out[0] == '/');
	assert(canonical == (len == text.len && memcmp(out, text.at, len) == 0));
	assert(http_path_is_canonical((struct http_text){ out, len }));
	assert(http_path_normalise((struct http_text){ out, len }, again, len, &len_again, NULL) == 0);
	assert(len_again == len && memcmp(out, again, len) == 0);
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
