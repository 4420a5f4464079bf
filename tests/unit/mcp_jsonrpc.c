/* mcp_jsonrpc.c - tests of mcp/jsonrpc: what is a message, and what is answered to what is none. */
#include "mcp/jsonrpc.h"

#include <errno.h>

#include "base/buf.h"
#include "test.h"

static const struct {
	const char *text;
	enum jsonrpc_kind kind;
} good[] = {
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", JSONRPC_REQUEST },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{}}", JSONRPC_REQUEST },
	{ "{\"jsonrpc\":\"2.0\",\"id\":\"\",\"method\":\"ping\"}", JSONRPC_REQUEST },
	{ " {\"method\":\"x\", \"jsonrpc\":\"2.0\"}\t", JSONRPC_NOTIFICATION },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", JSONRPC_RESPONSE },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"x\"}}", JSONRPC_RESPONSE },
};

TEST(jsonrpc_reads_messages)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		OWN(jsonrpc_free) struct jsonrpc m = {0};
		json_t *error = NULL;

		CHECK_OK(jsonrpc_read(good[i].text, strlen(good[i].text), &m, &error));
		CHECK(m.kind == good[i].kind);
		CHECK((m.method == NULL) == (m.kind == JSONRPC_RESPONSE));
		CHECK((m.id == NULL) == (m.kind == JSONRPC_NOTIFICATION));
	}
}

static const struct {
	const char *text;
	int code;
	const char *id;                 /* that the answer has; NULL: none */
} bad[] = {
	{ "", -32700, NULL },
	{ "x", -32700, NULL },
	{ "{", -32700, NULL },
	{ "{} {}", -32700, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32700, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":1,\"a\":1}}", -32700, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\\u0000\"}", -32700, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\\ud800\"}", -32700, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"ping\"}", -32700, NULL },
	{ "[]", -32600, NULL },
	{ "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, NULL },
	{ "1", -32600, NULL },
	{ "\"x\"", -32600, NULL },
	{ "null", -32600, NULL },
	{ "{}", -32600, NULL },
	{ "{\"id\":1,\"method\":\"ping\"}", -32600, "1" },
	{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"ping\"}", -32600, "1" },
	{ "{\"jsonrpc\":\"1.0\",\"id\":\"x\",\"method\":\"ping\"}", -32600, "\"x\"" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"ping\"}", -32600, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, NULL },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1}", -32600, "1" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}", -32600, "1" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32600, "1" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":null}", -32600, "1" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"result\":{}}", -32600, "1" },
};

static void
check_refused(const char *text, size_t len, int code, const char *id)
{
	OWN(json_decrefp) json_t *error = NULL, *want = NULL;
	struct jsonrpc m = {0};
	const json_t *inner;

	CHECK_ERR(jsonrpc_read(text, len, &m, &error), EBADMSG);
	inner = json_object_get(error, "error");
	CHECK(json_integer_value(json_object_get(inner, "code")) == code);
	CHECK(json_string_length(json_object_get(inner, "message")) > 0);
	want = id != NULL ? json_loads(id, JSON_DECODE_ANY, NULL) : NULL;
	CHECK(id == NULL ? json_object_get(error, "id") == NULL :
	      json_equal(want, json_object_get(error, "id")));
}

TEST(jsonrpc_refuses_invalid_messages)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_refused(bad[i].text, strlen(bad[i].text), bad[i].code, bad[i].id);
	check_refused("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\0ng\"}", 41, -32700, NULL);
}

/* A message with N of WHAT in its params. */
static void
put_many(struct buf *b, size_t n, const char *what, const char *end)
{
	static const char begin[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"a\":[0";

	buf_init(b, JSONRPC_MESSAGE_MAX + 4096);
	buf_put(b, begin, sizeof(begin) - 1);
	for (size_t i = 0; i < n; i++)
		buf_put(b, what, strlen(what));
	for (size_t i = 0; i < n; i++)
		buf_put(b, end, strlen(end));
	buf_put(b, "]}}", 3);
	CHECK(!buf_failed(b));
}

TEST(jsonrpc_has_limits)
{
	OWN(jsonrpc_free) struct jsonrpc m = {0};
	OWN(buf_free) struct buf wide = {0}, deep = {0}, fits = {0}, large = {0};
	json_t *error = NULL;

	put_many(&wide, JSONRPC_VALUES_MAX, ",0", "");
	check_refused((char *)wide.data, wide.len, -32700, NULL);
	put_many(&deep, 40, ",[0", "]");
	check_refused((char *)deep.data, deep.len, -32700, NULL);
	put_many(&fits, 20, ",[0", "]");
	CHECK_OK(jsonrpc_read((char *)fits.data, fits.len, &m, &error));
	put_many(&large, JSONRPC_MESSAGE_MAX, " ", "");
	check_refused((char *)large.data, large.len, -32700, NULL);
}

TEST(jsonrpc_quotes_no_broken_text)
{
	OWN(json_decrefp) json_t *error = jsonrpc_error(NULL, -1, "there is no '%.2s'", "a\xc3\xa4");
	OWN(freep) char *text = jsonrpc_write(error);

	CHECK(text != NULL && strstr(text, "\"message\":\"") != NULL);
}
