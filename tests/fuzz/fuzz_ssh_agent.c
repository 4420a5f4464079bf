/* fuzz_ssh_agent.c - requests to an SSH agent.
 *
 * What is to be signed, put together again from what was read of it, is what was asked for to
 * the last byte: what is decided on is what is signed. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "ssh/ssh_agent.h"

static void
check_signed(struct http_text message, const struct ssh_request *r)
{
	OWN(buf_free) struct buf again;
	struct http_text key, data;
	uint8_t type;

	buf_init(&again, SSH_AGENT_MESSAGE_MAX);
	assert(ssh_get_u8(&message, &type) && ssh_get_string(&message, &key) &&
	       ssh_get_string(&message, &data));
	assert(key.at == r->key.at && key.len == r->key.len);
	if (r->asks == SSH_ASKS_LOGIN)
		ssh_put_login(&again, r);
	else
		ssh_put_text(&again, r);
	assert(again.len == data.len && memcmp(again.data, data.at, data.len) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_text message = { (const char *)data, size };
	struct ssh_request r;
	const char *why = NULL;

	if (size > SSH_AGENT_MESSAGE_MAX)
		return 0;
	if (ssh_request_read(message, &r, &why) < 0) {
		assert(why != NULL);
		return 0;
	}
	if (r.asks == SSH_ASKS_LOGIN || r.asks == SSH_ASKS_TEXT)
		check_signed(message, &r);
	if (r.asks == SSH_ASKS_BIND)
		assert(r.bind.session.len >= SSH_SESSION_MIN && r.bind.session.len <= SSH_SESSION_MAX &&
		       r.bind.host_key.len > 0 && r.bind.signature.len > 0);
	return 0;
}
