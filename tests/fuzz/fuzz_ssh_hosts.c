/* fuzz_ssh_hosts.c - known_hosts files, and keys as lines.
 *
 * A key that was read is written as it was; a plain name fits the line that it is from, but
 * where another of that line excludes it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "ssh/ssh_hosts.h"
#include "ssh/ssh_key.h"

static void
check_key(struct http_text line)
{
	OWN(buf_free) struct buf blob, text, again;
	struct http_text raw;
	char print[SSH_PRINT_MAX];

	buf_init(&blob, SSH_BLOB_MAX);
	buf_init(&text, 2 * SSH_BLOB_MAX);
	buf_init(&again, SSH_BLOB_MAX);
	if (ssh_key_parse(line, &blob) < 0)
		return;
	raw = (struct http_text){ (char *)blob.data, blob.len };
	ssh_key_put_line(&text, raw);
	assert(ssh_key_parse((struct http_text){ (char *)text.data, text.len }, &again) == 0);
	assert(again.len == blob.len && memcmp(again.data, blob.data, blob.len) == 0);
	ssh_key_print(raw, print);
	assert(strlen(print) == 50);
	assert(!ssh_verify(raw, line, line));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_text rest = { (const char *)data, size };
	struct ssh_hosts_line line;
	char host[SSH_HOST_MAX], name[SSH_HOST_MAX];
	uint16_t port;

	while (ssh_hosts_next(&rest, &line)) {
		struct http_text names = line.names;
		/* "[host]:22" is never looked for: the usual port is not said. */
		bool odd = memchr(names.at, '!', names.len) != NULL ||
		           memchr(names.at, '[', names.len) != NULL || names.at[0] == '|';

		assert(names.len > 0 && line.key.len > 0);
		(void)ssh_hosts_match(names, "a.example");
		while (ssh_hosts_plain(&names, host, &port)) {
			assert(host[0] != '\0' && port != 0);
			ssh_hosts_name(host, port, name);
			assert(odd || strlen(host) > 256 || ssh_hosts_match(line.names, name));
		}
		check_key(line.key);
	}
	return 0;
}
