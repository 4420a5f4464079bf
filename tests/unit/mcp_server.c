/* mcp_server.c - tests of mcp: revisions and their negotiation, methods, tools step by step. */
#include "mcp/mcp.h"

#include <errno.h>

#include "mcp/mcp_parts.h"
#include "test.h"

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"," \
	"\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define ASK(method, params) "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"" method "\",\"params\":{" \
	params "}}"

static const struct mcp_config config = { .version = "0.0", .principal = "" };
static const struct mcp_config as_anna = { .version = "0.0", .principal = "anna" };

/* What is answered; the caller owns it. */
static struct mcp_reply
receive(struct mcp_peer *peer, const struct mcp_fields *fields, const char *text)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	struct mcp_reply reply = {0};
	json_t *error = NULL;

	CHECK_OK(jsonrpc_read(text, strlen(text), &m, &error));
	CHECK_OK(mcp_receive(&config, peer, fields, &m, &reply));
	return reply;
}

static int
code_of(const json_t *message)
{
	return (int)json_integer_value(json_object_get(json_object_get(message, "error"), "code"));
}

/* ---- revisions ---- */

TEST(mcp_agrees_on_a_revision)
{
	static const struct { const char *asks, *gets; } cases[] = {
		{ "2025-06-18", "2025-06-18" }, { "2025-11-25", "2025-11-25" },
		{ "2025-03-26", "2025-11-25" }, { "2026-07-28", "2025-11-25" }, { "x", "2025-11-25" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mcp_peer peer = {0};
		struct mcp_reply reply, again;
		char text[256];

		snprintf(text, sizeof(text), ASK("initialize", "\"protocolVersion\":\"%s\""), cases[i].asks);
		reply = receive(&peer, NULL, text);
		CHECK(reply.begins && reply.status == 200);
		CHECK_STR(peer.version, cases[i].gets);
		CHECK_STR(json_string_value(json_object_get(json_object_get(reply.message, "result"),
		                                            "protocolVersion")), cases[i].gets);
		again = receive(&peer, NULL, text);
		CHECK(!again.begins && code_of(again.message) == JSONRPC_BAD_REQUEST);
		json_decref(reply.message);
		json_decref(again.message);
	}
}

static const struct {
	const char *what, *text;
	struct mcp_fields fields;       /* .version "-": there is no HTTP */
	unsigned status;
	int code;
} requests[] = {
	{ "all is well", ASK("server/discover", META), { "2026-07-28", "server/discover", NULL }, 200, 0 },
	{ "no HTTP", ASK("server/discover", META), { "-", NULL, NULL }, 200, 0 },
	{ "no _meta", ASK("server/discover", ""), { "2026-07-28", "server/discover", NULL }, 400, -32602 },
	{ "no capabilities",
	  ASK("server/discover", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"),
	  { "2026-07-28", "server/discover", NULL }, 400, -32602 },
	{ "another version",
	  ASK("server/discover", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2030-01-01\"}"),
	  { "2030-01-01", "server/discover", NULL }, 400, -32022 },
	{ "an older version, newly said",
	  ASK("tools/list", "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2025-11-25\"}"),
	  { "2025-11-25", "tools/list", NULL }, 400, -32022 },
	{ "no version field", ASK("server/discover", META), { NULL, "server/discover", NULL }, 400, -32020 },
	{ "the version field lies", ASK("server/discover", META),
	  { "2025-11-25", "server/discover", NULL }, 400, -32020 },
	{ "no method field", ASK("tools/list", META), { "2026-07-28", NULL, NULL }, 400, -32020 },
	{ "the method field lies", ASK("tools/list", META), { "2026-07-28", "tools/call", NULL }, 400,
	  -32020 },
	{ "in capitals", ASK("tools/list", META), { "2026-07-28", "TOOLS/LIST", NULL }, 400, -32020 },
	{ "no name field", ASK("tools/call", "\"name\":\"nix\"," META),
	  { "2026-07-28", "tools/call", NULL }, 400, -32020 },
	{ "the name field lies", ASK("tools/call", "\"name\":\"nix\"," META),
	  { "2026-07-28", "tools/call", "dispatch" }, 400, -32020 },
	{ "no such tool", ASK("tools/call", "\"name\":\"nix\"," META),
	  { "2026-07-28", "tools/call", "nix" }, 200, -32602 },
	{ "a coded name", ASK("tools/call", "\"name\":\"nix\"," META),
	  { "2026-07-28", "tools/call", "=?base64?bml4?=" }, 200, -32602 },
	{ "a badly coded name", ASK("tools/call", "\"name\":\"nix\"," META),
	  { "2026-07-28", "tools/call", "=?base64?bml?=" }, 400, -32020 },
	{ "no such method", ASK("tools/grant", META), { "2026-07-28", "tools/grant", NULL }, 404, -32601 },
	{ "ping is gone", ASK("ping", META), { "2026-07-28", "ping", NULL }, 404, -32601 },
	{ "initialize is gone", ASK("initialize", META), { "2026-07-28", "initialize", NULL }, 404,
	  -32601 },
	{ "before initialize", ASK("tools/list", ""), { "-", NULL, NULL }, 200, -32602 },
	{ "ping before initialize", ASK("ping", ""), { "-", NULL, NULL }, 200, 0 },
	{ "no version wanted", ASK("initialize", ""), { "-", NULL, NULL }, 200, -32602 },
	{ "discover is new", ASK("server/discover", ""), { "-", NULL, NULL }, 200, -32601 },
	{ "a version field that nobody knows", ASK("ping", ""), { "1999-01-01", NULL, NULL }, 400, -32022 },
	{ "a page that is not there", ASK("tools/list", "\"cursor\":\"x\"," META),
	  { "2026-07-28", "tools/list", NULL }, 200, -32602 },
};

TEST(mcp_distinguishes_requests)
{
	for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
		bool is_http = requests[i].fields.version == NULL || *requests[i].fields.version != '-';
		struct mcp_peer peer = {0};
		struct mcp_reply reply = receive(&peer, is_http ? &requests[i].fields : NULL,
		                                 requests[i].text);

		if (reply.status != requests[i].status || code_of(reply.message) != requests[i].code)
			test_fail(__FILE__, __LINE__, "%s: %u and %d, not %u and %d", requests[i].what,
			          reply.status, code_of(reply.message), requests[i].status, requests[i].code);
		CHECK(json_object_get(reply.message, "id") != NULL);
		json_decref(reply.message);
	}
}

TEST(mcp_answers_no_notification)
{
	static const char *const texts[] = {
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/none\"}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"dispatch\"}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}",
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct mcp_peer peer = {0};
		struct mcp_reply reply = receive(&peer, NULL, texts[i]);

		CHECK(reply.message == NULL && reply.call == NULL && reply.cancel == NULL);
		CHECK(reply.status == 202);
	}
}

/* ---- tools ---- */

static struct mcp_call *
begin(struct mcp_peer *peer, const struct mcp_config *as, const char *name, const char *arguments)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	struct mcp_reply reply = {0};
	json_t *error = NULL;
	char text[1024];

	snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/call\",\"params\":{"
	         "\"name\":\"%s\",\"arguments\":%s,\"_meta\":{\"progressToken\":\"t\"}}}", name, arguments);
	peer->version = "2025-11-25";
	CHECK_OK(jsonrpc_read(text, strlen(text), &m, &error));
	CHECK_OK(mcp_receive(as, peer, NULL, &m, &reply));
	CHECK(reply.call != NULL);
	return reply.call;
}

static enum mcp_next
tell(struct mcp_call *call, unsigned status, const char *body)
{
	return mcp_call_answer(call, &(struct mcp_answer){ .status = status, .body = body,
	                                                   .len = strlen(body) });
}

static void
check_result(struct mcp_call *call, bool failed, const char *has)
{
	OWN(json_decrefp) json_t *result = mcp_call_result(call);
	OWN(freep) char *text = jsonrpc_write(result);
	const json_t *inner = json_object_get(result, "result");

	CHECK(json_is_true(json_object_get(inner, "isError")) == failed);
	CHECK((json_object_get(inner, "structuredContent") == NULL) == failed);
	if (strstr(text, has) == NULL)
		test_fail(__FILE__, __LINE__, "no '%s' in %s", has, text);
	mcp_call_free(call);
}

static const struct {
	const char *tool, *arguments, *says;
} bad_arguments[] = {
	{ "dispatch", "{}", "'agent' is missing" },
	{ "dispatch", "{\"agent\":1}", "'agent' is to be of type string" },
	{ "dispatch", "{\"agent\":\"\"}", "'agent' is less than 1 bytes" },
	{ "dispatch", "{\"agent\":\"a\",\"on_behalf_of\":\"root\"}", "dispatch has no 'on_behalf_of'" },
	{ "dispatch", "{\"agent\":\"a\",\"policy\":\"x\"}", "dispatch has no 'policy'" },
	{ "dispatch", "{\"agent\":\"a\",\"env\":\"x\"}", "'env' is to be of type array" },
	{ "dispatch", "{\"agent\":\"a\",\"env\":[1]}", "'env' is to be of type string" },
	{ "dispatch", "{\"agent\":\"a\",\"retries\":11}", "'retries' is more than 10" },
	{ "dispatch", "{\"agent\":\"a\",\"wait\":\"no\"}", "'wait' is to be of type boolean" },
	{ "status", "{\"id\":\"..\"}", "there is no such dispatch" },
	{ "cancel", "{\"id\":\".\"}", "there is no such dispatch" },
	{ "output", "{\"id\":\"d\",\"stream\":\"stdin\"}", "'stream' is not one of its values" },
	{ "output", "{\"id\":\"d\",\"offset\":-1}", "'offset' is less than 0" },
	{ "result_files", "{\"id\":\"d\",\"path\":\"../x\"}", "there is no such file" },
	{ "result_files", "{\"id\":\"d\",\"path\":\"/x\"}", "there is no such file" },
	{ "result_files", "{\"id\":\"d\",\"path\":\"a//x\"}", "there is no such file" },
	{ "result_files", "{\"id\":\"d\",\"path\":\"a/.\"}", "there is no such file" },
};

TEST(mcp_refuses_bad_arguments)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_arguments); i++) {
		struct mcp_peer peer = {0};
		struct mcp_call *call = begin(&peer, &config, bad_arguments[i].tool,
		                              bad_arguments[i].arguments);

		CHECK(call->ask.method == NULL && peer.n_calls == 1);
		check_result(call, true, bad_arguments[i].says);
		CHECK(peer.n_calls == 0 && peer.calls == NULL);
	}
}

static const struct {
	const char *tool, *arguments, *method, *path;
} asks[] = {
	{ "list_agents", "{}", "GET", "/v1/agents?limit=100" },
	{ "list_agents", "{\"after\":\"a&b\",\"limit\":2}", "GET", "/v1/agents?limit=2&after=a%26b" },
	{ "status", "{\"id\":\"a/b?c\"}", "GET", "/v1/dispatches/a%2Fb%3Fc" },
	{ "output", "{\"id\":\"d\",\"stream\":\"stderr\"}", "GET", "/v1/dispatches/d/output?stream=stderr" },
	{ "result_files", "{\"id\":\"d\"}", "GET", "/v1/dispatches/d/files" },
	{ "result_files", "{\"id\":\"d\",\"path\":\"a b/\xc3\xa4%\"}", "GET",
	  "/v1/dispatches/d/files/a%20b/%C3%A4%25" },
	{ "cancel", "{\"id\":\"d\"}", "POST", "/v1/dispatches/d/cancel" },
	{ "dispatch", "{\"agent\":\"a\"}", "POST", "/v1/dispatches" },
};

TEST(mcp_asks_the_service)
{
	for (size_t i = 0; i < ARRAY_LEN(asks); i++) {
		struct mcp_peer peer = {0};
		struct mcp_call *call = begin(&peer, &config, asks[i].tool, asks[i].arguments);

		CHECK_STR(call->ask.method, asks[i].method);
		CHECK_STR(call->ask.path, asks[i].path);
		CHECK(tell(call, 404, "{\"error\":{\"code\":\"not_found\",\"message\":\"there is none\"}}") ==
		      MCP_DONE);
		check_result(call, true, "there is none");
	}
}

TEST(mcp_names_the_principal)
{
	struct mcp_peer peer = {0};
	struct mcp_call *call = begin(&peer, &as_anna, "dispatch",
		"{\"agent\":\"a\",\"input\":\"x\",\"timeout_seconds\":5,\"env\":[\"e\"]}");

	CHECK_STR(call->ask.body, "{\"agent\":\"a\",\"input\":\"x\",\"env\":[\"e\"],\"timeout\":\"5s\","
	          "\"on_behalf_of\":\"anna\"}");
	mcp_call_free(call);
}

/* ---- a dispatch that is waited for ---- */

#define RUNNING "{\"id\":\"d1\",\"state\":\"running\",\"exit_code\":null,\"reason\":null}"
#define FINISHED "{\"id\":\"d1\",\"state\":\"finished\",\"exit_code\":3," \
	"\"agent\":{\"name\":\"a\",\"hash\":\"h\"}}"

static struct mcp_call *
begin_waiting(struct mcp_peer *peer)
{
	struct mcp_call *call = begin(peer, &config, "dispatch", "{\"agent\":\"a\"}");

	CHECK(call->waits);
	CHECK(tell(call, 202, RUNNING) == MCP_ASK);
	CHECK_STR(call->ask.path, "/v1/dispatches/d1/events");
	CHECK(call->ask.lines);
	return call;
}

static bool
line_tells(struct mcp_call *call, const char *line, uint64_t now_ms)
{
	OWN(json_decrefp) json_t *progress = NULL;

	mcp_call_line(call, line, strlen(line), now_ms, &progress);
	return progress != NULL;
}

TEST(mcp_waits_for_a_dispatch)
{
	struct mcp_peer peer = {0};
	struct mcp_call *call = begin_waiting(&peer);

	CHECK(line_tells(call, "{\"event\":\"cell.boot\",\"n\":1}", 1000));
	CHECK(line_tells(call, "{\"event\":\"agent.output\",\"n\":2,\"text\":\"x\"}", 1001));
	/* Not more often than that, nor what came before, nor what is none. */
	CHECK(!line_tells(call, "{\"event\":\"agent.output\",\"n\":3,\"text\":\"y\"}", 1002));
	CHECK(line_tells(call, "{\"event\":\"agent.output\",\"n\":4,\"text\":\"z\"}", 1600));
	CHECK(!line_tells(call, "{\"event\":\"cell.boot\",\"n\":1}", 9000));
	CHECK(!line_tells(call, "nothing", 9000));
	CHECK(tell(call, 200, "") == MCP_ASK);
	CHECK_STR(call->ask.path, "/v1/dispatches/d1");
	CHECK(tell(call, 200, FINISHED) == MCP_ASK);
	CHECK_STR(call->ask.path, "/v1/dispatches/d1/output?stream=stdout");
	CHECK(mcp_call_answer(call, &(struct mcp_answer){ .status = 200, .body = "hi\xff\n", .len = 4,
	                                                  .is_cut = true }) == MCP_ASK);
	CHECK_STR(call->ask.path, "/v1/dispatches/d1/output?stream=stderr");
	CHECK(tell(call, 404, "") == MCP_ASK);
	CHECK_STR(call->ask.path, "/v1/dispatches/d1/files");
	CHECK(tell(call, 200, "{\"files\":[{\"path\":\"o\",\"size\":1}]}") == MCP_DONE);
	check_result(call, false, "\"structuredContent\":{\"id\":\"d1\",\"state\":\"finished\",\"exit_code\":3,"
	             "\"agent\":\"a\",\"hash\":\"h\",\"stdout\":\"hi\xef\xbf\xbd\\n\",\"stdout_truncated\":true,"
	             "\"files\":[{\"path\":\"o\",\"size\":1}],\"files_truncated\":false}");
}

TEST(mcp_waits_on_when_the_service_breaks_off)
{
	struct mcp_peer peer = {0};
	struct mcp_call *call = begin_waiting(&peer);
	struct err err = {0};
	enum mcp_next next;
	int n = 0;

	err_set(&err, EPIPE, "the service broke off");
	for (next = mcp_call_broken(call, &err); next == MCP_ASK; n++) {
		/* Having heard of it, it has patience again. */
		if (n == 3)
			(void)line_tells(call, "{\"event\":\"cell.boot\",\"n\":1}", 1000);
		next = mcp_call_broken(call, &err);
	}
	CHECK(n > 5 && n < 20);
	check_result(call, true, "broke off");
}

TEST(mcp_cancels_requests_it_waits_for)
{
	static const char cancelled[] =
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":7}}";
	struct mcp_peer peer = {0};
	struct mcp_call *call = begin_waiting(&peer);
	struct mcp_reply reply = receive(&peer, NULL, cancelled);

	CHECK(reply.cancel == call);
	CHECK(mcp_call_cancel(call) == MCP_ASK);
	CHECK_STR(call->ask.method, "POST");
	CHECK_STR(call->ask.path, "/v1/dispatches/d1/cancel");
	CHECK(tell(call, 202, "{}") == MCP_DONE && call->cancelled);
	mcp_call_free(call);

	/* Before its name is known. */
	call = begin(&peer, &config, "dispatch", "{\"agent\":\"a\"}");
	CHECK(mcp_call_cancel(call) == MCP_WAIT);
	CHECK(tell(call, 202, RUNNING) == MCP_ASK);
	CHECK_STR(call->ask.path, "/v1/dispatches/d1/cancel");
	CHECK(tell(call, 202, "{}") == MCP_DONE);
	mcp_call_free(call);

	/* Nobody waits for it: it goes on. */
	call = begin(&peer, &config, "dispatch", "{\"agent\":\"a\",\"wait\":false}");
	CHECK(!call->waits && mcp_call_cancel(call) == MCP_DONE);
	mcp_call_free(call);
}

TEST(mcp_limits_calls)
{
	struct mcp_peer peer = { .version = "2025-11-25" };
	struct mcp_reply reply;
	char text[256];

	for (int i = 0; i <= MCP_CALLS_MAX; i++) {
		snprintf(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\","
		         "\"params\":{\"name\":\"list_agents\"}}", i);
		reply = receive(&peer, NULL, text);
		CHECK((reply.call != NULL) == (i < MCP_CALLS_MAX));
		json_decref(reply.message);
	}
	/* The same id twice. */
	mcp_call_free(peer.calls);
	reply = receive(&peer, NULL, "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"tools/call\",\"params\":{"
	                "\"name\":\"list_agents\"}}");
	CHECK(reply.call == NULL && code_of(reply.message) == JSONRPC_BAD_PARAMS);
	json_decref(reply.message);
	while (peer.calls != NULL)
		mcp_call_free(peer.calls);
	CHECK(peer.n_calls == 0);
}

/* ---- bytes ---- */

static const struct {
	const char *data;
	size_t len;
	bool is_cut;
	const char *want;
	size_t used;
} pages[] = {
	{ "abc", 3, false, "{\"text\":\"abc\"}", 3 },
	{ "", 0, false, "{\"text\":\"\"}", 0 },
	{ "a\xc3", 2, true, "{\"text\":\"a\"}", 1 },
	{ "a\xc3", 2, false, "{\"base64\":\"YcM=\"}", 2 },
	{ "a\0b", 3, true, "{\"base64\":\"YQBi\"}", 3 },
	{ "\xff\xfe\xfd\xfc\xfb", 5, true, "{\"base64\":\"//79/Ps=\"}", 5 },
};

TEST(mcp_shows_bytes)
{
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		OWN(json_decrefp) json_t *into = json_object();
		OWN(freep) char *text = NULL;
		size_t used;

		CHECK_OK(mcp_put_bytes(into, pages[i].data, pages[i].len, pages[i].is_cut, &used));
		text = jsonrpc_write(into);
		CHECK_STR(text, pages[i].want);
		CHECK_U64(used, pages[i].used);
	}
}

TEST(mcp_pages_through_output)
{
	struct mcp_peer peer = {0};
	struct mcp_call *call = begin(&peer, &config, "output", "{\"id\":\"d\",\"offset\":10,\"max_bytes\":3}");

	CHECK_U64(call->ask.skip, 10);
	CHECK_U64(call->ask.max, 3);
	CHECK(mcp_call_answer(call, &(struct mcp_answer){ .status = 200, .body = "abc", .len = 3,
	                                                  .is_cut = true }) == MCP_DONE);
	check_result(call, false, "\"next_offset\":13");
}

TEST(mcp_tools_are_as_their_schemas_say)
{
	for (const struct mcp_tool *tool = mcp_tools; tool->name != NULL; tool++) {
		OWN(json_decrefp) json_t *input = mcp_tool_input(tool);

		/* What it does not name would otherwise be let through unseen. */
		CHECK(json_is_false(json_object_get(input, "additionalProperties")));
		CHECK(mcp_tool_find(tool->name) == tool);
		CHECK(tool->step != NULL && strlen(tool->description) > 20);
	}
}
