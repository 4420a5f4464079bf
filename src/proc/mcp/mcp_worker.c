/* mcp_worker.c - the half of cloister-mcp that reads messages of orchestrating agents.
 *
 * It has only its standard input and output or a listening socket, and a channel over which it gets
 * connections to the service's run-time socket.  It gives up everything else before it reads the
 * first byte. */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <signal.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/own.h"
#include "base/version.h"
#include "confine/lockdown.h"
#include "ipc/ipc.h"
#include "ipc/mcp_channel.h"
#include "proc/mcp/mcp_proc.h"

struct loop *mcp_loop;
struct mcp_config mcp_config = { .version = CLOISTER_VERSION };
const struct mcp_config mcp_guest_config = { .version = CLOISTER_VERSION, .principal = "" };

struct beginning {
	struct ipc_message message;     /* owns the strings */
	const char *token, *hash;
	uint32_t port;
};

static int
hear_beginning(struct beginning *b, struct err *err)
{
	int r = ipc_receive(MCP_CHANNEL_FD, &b->message, err);

	if (r < 0)
		return r;
	if (b->message.type != MCP_BEGIN ||
	    buf_get_str(&b->message.body, &mcp_config.principal) < 0 ||
	    buf_get_str(&b->message.body, &b->token) < 0 ||
	    buf_get_u32(&b->message.body, &b->port) < 0 ||
	    buf_get_str(&b->message.body, &b->hash) < 0)
		return err_set(err, EBADMSG, "the two processes of cloister-mcp have different versions");
	return 0;
}

static int
begin_http(const struct beginning *b, struct err *err)
{
	static struct serve_token token = { .name = "mcp", .role = SERVE_AGENT };

	if (b->hash[0] != '\0' && !codec_unhex_lower(b->hash, token.hash, sizeof(token.hash)))
		return err_set(err, EBADMSG, "the two processes of cloister-mcp have different versions");
	return http_begin((uint16_t)b->port, b->hash[0] != '\0' ? &token : NULL, err);
}

/* Does what libraries would do at their first use. */
static void
prepare(void)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];

	json_object_seed(0);
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	(void)SHA256((const unsigned char *)"", 0, hash);
}

int
worker_main(void)
{
	const struct lockdown what_is_left = { .filter = FILTER_MCP };
	struct beginning b = {0};
	struct err err = {0};
	int r;

	signal(SIGPIPE, SIG_IGN);
	prepare();
	r = hear_beginning(&b, &err);
	if (r == 0)
		r = lockdown_enter(&what_is_left, b.port != 0 ? MCP_LISTENER_FD + 1 : MCP_LISTENER_FD,
		                   &err);
	if (r == 0)
		r = loop_new(&mcp_loop, &err);
	if (r == 0) {
		job_start(b.token);
		r = b.port != 0 ? begin_http(&b, &err) : stdio_begin(&err);
	}
	if (r == 0)
		r = loop_run(mcp_loop, &err);
	fprintf(stderr, "cloister: %s\n", err.text);
	return 125;
}
