/* fuzz_jsonrpc.c - what an orchestrating agent sends, and what a service that is not ours might
 * answer: a message is read as it would be written again, everything that is asked has one answer,
 * and nothing that is asked of the service leaves the paths that it is allowed.
 *
 * Lines; the first byte says how the conversation begins.  A line that comes while a call runs is
 * the service's. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "mcp/mcp.h"

#define STEPS_MAX 64

static const struct mcp_config config = { .version = "0", .principal = "" };

static void
check_written(json_t *message)
{
	OWN(freep) char *text = jsonrpc_write(message);
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	json_t *error = NULL;

	assert(text != NULL && strchr(text, '\n') == NULL);
	if (strlen(text) < 4096 && jsonrpc_read(text, strlen(text), &m, &error) < 0)
		json_decref(error);
	json_decref(message);
}

static void
check_ask(const struct mcp_ask *ask)
{
	const char *path = ask->path;
	bool posts = strcmp(ask->method, "POST") == 0;

	assert(posts || strcmp(ask->method, "GET") == 0);
	assert(strncmp(path, "/v1/agents?", 11) == 0 || strncmp(path, "/v1/dispatches", 14) == 0);
	assert(!posts || strcmp(path, "/v1/dispatches") == 0 ||
	       strcmp(path + strlen(path) - 7, "/cancel") == 0);
	/* Nothing that would mean another path to who reads it. */
	assert(strstr(path, "/../") == NULL && strstr(path, "/./") == NULL && strstr(path, "//") == NULL);
	assert(strlen(path) < 3 || strcmp(path + strlen(path) - 3, "/..") != 0);
	for (; *path != '\0'; path++)
		assert(*path > ' ' && *path < 0x7f && *path != '#');
	assert((ask->body != NULL) == posts);
}

/* One answer of the service's, which is LINE. */
static enum mcp_next
answer(struct mcp_call *call, const char *line, size_t len)
{
	struct mcp_answer a = { .status = len > 0 && line[0] == '!' ? 404 : 200, .body = line, .len = len,
	                        .is_cut = len > 1 && line[1] == '!' };
	const struct err err = { .code = EPIPE, .text = "gone" };
	json_t *progress = NULL;

	check_ask(&call->ask);
	if (len > call->ask.max)
		a.len = call->ask.max;
	if (len > 0 && line[0] == '-')
		return mcp_call_broken(call, &err);
	if (len > 0 && line[0] == '~')
		return mcp_call_cancel(call);
	if (!call->ask.lines)
		return mcp_call_answer(call, &a);
	mcp_call_line(call, line, len, 1000, &progress);
	if (progress != NULL)
		check_written(progress);
	a.len = 0;
	return len == 0 ? mcp_call_answer(call, &a) : MCP_WAIT;
}

static void
end(struct mcp_call **call)
{
	check_written(mcp_call_result(*call));
	mcp_call_free(TAKE(*call));
}

static void
receive(struct mcp_peer *peer, const struct mcp_fields *fields, const char *line, size_t len,
        struct mcp_call **ret_call)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	struct mcp_reply reply = {0};
	json_t *error = NULL;

	if (jsonrpc_read(line, len, &m, &error) < 0) {
		check_written(error);
		return;
	}
	assert(mcp_receive(&config, peer, fields, &m, &reply) == 0);
	assert((m.kind == JSONRPC_REQUEST) == (reply.message != NULL || reply.call != NULL) ||
	       (fields != NULL && reply.status == 400));
	assert(reply.message == NULL || reply.call == NULL);
	if (reply.message != NULL)
		check_written(reply.message);
	*ret_call = reply.call;
	if (reply.call != NULL && reply.call->ask.method == NULL)
		end(ret_call);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mcp_fields modern = { MCP_MODERN, "tools/call", "dispatch" };
	struct mcp_peer peer = {0};
	struct mcp_call *call = NULL;
	const char *at = (const char *)data + 1, *next;
	size_t left = size > 0 ? size - 1 : 0, n, steps = 0;

	if (size > 0 && data[0] % 3 == 1)
		peer.version = "2025-11-25";
	for (; left > 0 && steps < STEPS_MAX; steps++) {
		next = memchr(at, '\n', left);
		n = next != NULL ? (size_t)(next - at) : left;
		if (call == NULL)
			receive(&peer, data[0] % 3 == 2 ? &modern : NULL, at, n, &call);
		else if (answer(call, at, n) == MCP_DONE)
			end(&call);
		n += next != NULL;
		at += n;
		left -= n;
	}
	mcp_call_free(call);
	assert(peer.n_calls == 0 && peer.calls == NULL);
	return 0;
}
