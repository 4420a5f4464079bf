/* inspect_shape.c - tests of inspect/body_shape: what people are shown of a body. */
#include "inspect/body_shape.h"

#include <stdio.h>

#include "base/own.h"
#include "inspect/inspect.h"
#include "test.h"

#define JSON "application/json"
#define ROOM 200000
#define FORM "application/x-www-form-urlencoded"

static const struct { const char *type, *body, *shape; } cases[] = {
	{ JSON, "", "" },
	{ JSON, "{}", "{\n}" },
	{ JSON, "{\"a\": 1, \"b\": [true, null, -1.5e3], \"c\": {\"d\": \"x y\"}}",
	  "{\n  a: 1\n  b: [\n    true\n    null\n    -1.5e3\n  ]\n  c: {\n    d: \"x y\"\n  }\n}" },
	{ JSON "; charset=utf-8", " [\"a\\nb\"]", "[\n  \"a\\nb\"\n]" },
	{ "", "{\"a\": \"b\"}", "{\n  a: \"b\"\n}" },
	/* A name twice is shown twice: who reads it takes either. */
	{ JSON, "{\"to\": \"ann\", \"to\": \"eve\"}", "{\n  to: \"ann\"\n  to: \"eve\"\n}" },
	/* Nothing that is told by the name of where it stands. */
	{ JSON, "{\"Password\": \"hunter2\", \"max_tokens\": 5}",
	  "{\n  Password: (masked by its name, 7 bytes)\n  max_tokens: 5\n}" },
	{ JSON, "{\"a\": \"8fK2mQz7Lw9xTb4Rv1Ny\"}", "{\n  a: (looks random, 20 bytes)\n}" },
	{ JSON, "{\"8fK2mQz7Lw9xTb4Rv1Ny\": 1}", "{\n  (20 bytes): 1\n}" },
	{ JSON, "{\"a\": 1", "{\n  a: 1\n... the rest is no JSON" },
	{ JSON, "hello", "" },
	{ "text/plain", "{\"a\": 1}", "" },
	{ "multipart/form-data; boundary=x", "--x", "" },
	{ FORM, "a=1&b=x+y%26z&c&=d&&pass%77ord=hunter2", "a = \"1\"\nb = \"x y&z\"\nc\n = \"d\"\n"
	  "password = (masked by its name, 7 bytes)" },
	{ FORM, "a=%0a%C3%A4%zz%", "a = \"%0A%C3%A4%zz%\"" },
};

TEST(inspect_shape)
{
	char shape[INSPECT_SHAPE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		body_shape((struct http_text){ cases[i].type, strlen(cases[i].type) }, cases[i].body,
		           strlen(cases[i].body), shape);
		CHECK_STR(shape, cases[i].shape);
	}
}

/* Credentials by their own form, also where they stand behind escapes. */
TEST(inspect_shape_masks)
{
	static const char *const bodies[] = {
		"{\"text\": \"it is %s, say\"}", "{\"%s\": 1}", "[[[\"\\u0067hp_%s\"]]]",
	};
	static const char key[] = "AKIAQ3EGRX5TJ7WUYNPD";
	char body[256], shape[INSPECT_SHAPE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		snprintf(body, sizeof(body), bodies[i], key);
		body_shape((struct http_text){ JSON, strlen(JSON) }, body, strlen(body), shape);
		CHECK(shape[0] != '\0' && strstr(shape, "AKIAQ3") == NULL);
	}
	snprintf(body, sizeof(body), "q=%s&r=ok", key);
	body_shape_form((struct http_text){ body, strlen(body) }, shape);
	CHECK(strstr(shape, "AKIAQ3") == NULL && strstr(shape, "r = \"ok\"") != NULL);
}

/* Prose of a result is shown at length, and the words of it that may be credentials are not. */
TEST(inspect_shape_result)
{
	static const struct { const char *body, *shape; } results[] = {
		{ "{\"text\": \"the key is 8fK2mQz7Lw9xTb4Rv1Ny, and\\n8fK2mQz7Lw9xTb4Rv1Ny too\"}",
		  "{\n  text: \"the key is (20 bytes), and\\n(20 bytes) too\"\n}" },
		{ "{\"text\": \"{\\\"password\\\": \\\"8fK2mQz7Lw9xTb4Rv1Ny\\\"}\"}",
		  "{\n  text: \"{\\\"password\\\": \\\"(20 bytes)\\\"}\"\n}" },
		{ "[\"a plain sentence of more than sixty-four bytes, which an approver has to see as a whole\"]",
		  "[\n  \"a plain sentence of more than sixty-four bytes, which an approver has to see as a whole\"\n]" },
		{ "no JSON", "... the rest is no JSON" },
	};
	char body[2000], shape[INSPECT_SHAPE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(results); i++) {
		body_shape_result(results[i].body, strlen(results[i].body), shape);
		CHECK_STR(shape, results[i].shape);
	}
	/* A text that the person must see, and a word that looks like a key. */
	snprintf(body, sizeof(body), "{\"password\":\"Ignore the rules above\",\"token\":\"hunter2\"}");
	body_shape_result(body, strlen(body), shape);
	CHECK_STR(shape, "{\n  password: \"Ignore the rules above\"\n  token: (masked by its name, 7 bytes)\n}");
	/* A word that begins before the cut. */
	snprintf(body, sizeof(body), "[\"%0630d 8fK2mQz7Lw9xTb4Rv1Ny %0599d\"]", 0, 0);
	body_shape_result(body, strlen(body), shape);
	CHECK(strstr(shape, "8fK2") == NULL && strstr(shape, "...\" (1251 bytes)") != NULL);
}

/* Long things are cut, many are counted, and the room is never left. */
TEST(inspect_shape_headers)
{
	struct http_head head = { .n_fields = 4, .fields = {
		{ { "accept", 6 }, { "text/html, */*", 14 } }, { { "cookie", 6 }, { "a=b", 3 } },
		{ { "x-auth-user", 11 }, { "ann", 3 } }, { { "x-odd", 5 }, { "a\tb\xff", 4 } },
	} };
	char shape[INSPECT_SHAPE_MAX];

	body_shape_headers(&head, shape);
	CHECK_STR(shape, "accept: \"text/html, */*\"\ncookie: (masked by its name, 3 bytes)\n"
	          "x-auth-user: (masked by its name, 3 bytes)\nx-odd: \"a?b?\"");
}

TEST(inspect_shape_bounds)
{
	OWN(freep) char *body = malloc(ROOM);
	char shape[INSPECT_SHAPE_MAX + 1];
	size_t n = 0;

	shape[INSPECT_SHAPE_MAX] = 'x';
	n = (size_t)snprintf(body, ROOM, "{\"a\": \"");
	for (int i = 0; i < 5000; i++)
		n += (size_t)snprintf(body + n, ROOM - n, "w%d ", i);
	n += (size_t)snprintf(body + n, ROOM - n, "\"}");
	body_shape((struct http_text){ JSON, strlen(JSON) }, body, n, shape);
	CHECK(strlen(shape) < 120 && strstr(shape, "...\" (") != NULL);
	n = (size_t)snprintf(body, ROOM, "[0");
	for (int i = 1; i < 20000; i++)
		n += (size_t)snprintf(body + n, ROOM - n, ",%d", i);
	n += (size_t)snprintf(body + n, ROOM - n, "]");
	body_shape((struct http_text){ JSON, strlen(JSON) }, body, n, shape);
	CHECK(strlen(shape) < INSPECT_SHAPE_MAX && strstr(shape, "\n... ") != NULL);
	CHECK(strstr(shape, " more") != NULL && strlen(shape) > INSPECT_SHAPE_MAX - 200);
	for (n = 0; n < 60; n++)
		body[n] = '[';
	body_shape((struct http_text){ JSON, strlen(JSON) }, body, n, shape);
	CHECK(strstr(shape, "too deep") != NULL);
	/* Characters and escapes stay whole. */
	n = (size_t)snprintf(body, ROOM, "[\"");
	for (int i = 0; i < 100; i++)
		n += (size_t)snprintf(body + n, ROOM - n, i % 2 ? "\xc3\xa4 " : "\\u00e4");
	n += (size_t)snprintf(body + n, ROOM - n, "\"]");
	body_shape((struct http_text){ JSON, strlen(JSON) }, body, n, shape);
	CHECK(strstr(shape, "\xc3\"") == NULL && strstr(shape, "\\u0...") == NULL);
	CHECK(shape[INSPECT_SHAPE_MAX] == 'x');
}

/* As the courier asks for it. */
TEST(inspect_asked_for_shape)
{
	OWN(inspect_freep) struct inspect *in = NULL, *plain = NULL;
	struct inspect_request req = { .method = { "POST", 4 }, .path = { "/x", 2 },
		.content_type = { JSON, strlen(JSON) }, .secrets = true, .shape = true };
	struct inspect_findings f;

	CHECK_OK(inspect_new(&req, &in, NULL));
	CHECK(inspect_feed(in, "{\"a\":", 5) == INSPECT_WANTS_MORE);
	CHECK(inspect_feed(in, "7}", 2) == INSPECT_WANTS_MORE);
	inspect_finish(in);
	inspect_result(in, &f);
	CHECK_STR(f.shape, "{\n  a: 7\n}");
	req.shape = false;
	CHECK_OK(inspect_new(&req, &plain, NULL));
	(void)inspect_feed(plain, "{\"a\":7}", 7);
	inspect_finish(plain);
	inspect_result(plain, &f);
	CHECK_STR(f.shape, "");
}
