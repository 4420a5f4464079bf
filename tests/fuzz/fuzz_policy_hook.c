/* fuzz_policy_hook.c - answers of a hook; and the bytes as parts of a question, which jansson has to
 * read. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_hook.h"

static void
check_answer(const char *text, size_t len)
{
	OWN(policy_hook_answer_free) struct policy_hook_answer answer = {0};
	struct err err = {0};
	int r = policy_hook_get(text, len, &answer, &err);
	json_t *json;

	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r < 0) {
		assert(answer.memory == NULL);
		return;
	}
	/* What the courier takes, cloister-hook lets through, and for no other question. */
	assert(policy_hook_stray(text, len, answer.id) == NULL && policy_hook_stray(text, len, "x") != NULL);
	json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
	if (json == NULL)
		return;                 /* a number that it has no room for */
	assert(strcmp(json_string_value(json_object_get(json, "id")), answer.id) == 0);
	assert(strcmp(json_string_value(json_object_get(json, "verdict")),
	              answer.verdict == POLICY_ALLOW ? "allow" : answer.verdict == POLICY_ASK ? "ask" : "deny") == 0);
	assert((json_object_get(json, "rewrite") != NULL) == (answer.rewrite != NULL));
	assert(answer.rewrite == NULL || (answer.rewrite->n > 0 && answer.verdict != POLICY_DENY));
	assert(strchr(answer.reason, '\n') == NULL);
	json_decref(json);
}

#define ID "0123456789abcdef0123456789abcdef"

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

static void
check_question(const char *data, size_t size)
{
	struct http_head head = { .method = text_of("POST"), .host = text_of("a.example"),
		.path = text_of("/"), .port = 8443, .scheme = HTTP_TLS, .n_fields = 2,
		.fields = { { text_of("x"), { data, size < 64 ? size : 64 } }, { text_of("x-api-key"), text_of("k") } } };
	struct policy_hook_question question = { .id = ID, .head = &head, .has_body = true, .body = data,
		.n_body = size, .cell = "c", .agent = "a", .principal = "", .rule = "r", .place = "p" };
	OWN(buf_free) struct buf b;
	char id[POLICY_HOOK_ID + 1];
	json_t *json, *headers;

	buf_init(&b, POLICY_HOOK_QUESTION_MAX);
	policy_hook_put(&b, &question);
	assert(!buf_failed(&b) && policy_hook_id(b.data, b.len, id) && strcmp(id, ID) == 0);
	assert(memchr(b.data, '\n', b.len) == b.data + b.len - 1);
	json = json_loadb((const char *)b.data, b.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
	headers = json_object_get(json, "headers");
	assert(json_array_size(headers) == 2 && json_is_null(json_array_get(json_array_get(headers, 1), 1)));
	if (json_object_get(json, "body") != NULL)
		assert(json_string_length(json_object_get(json, "body")) == size);
	else
		assert(json_string_length(json_object_get(json, "body_base64")) == (size + 2) / 3 * 4);
	json_decref(json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > POLICY_HOOK_BODY_MAX)
		return 0;
	check_answer((const char *)data, size);
	check_question((const char *)data, size);
	return 0;
}
