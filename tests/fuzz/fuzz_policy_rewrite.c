/* fuzz_policy_rewrite.c - a rewrite, on the first line, of the body behind it.  The edits are made
 * again with jansson, which shares no code with ours: both have to give the same. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_hook.h"

/* The next name of a pointer, decoded into NAME; returns what is behind it. */
static const char *
next_name(const char *at, char name[2048])
{
	size_t n = 0;

	for (at++; *at != '\0' && *at != '/'; at++) {
		name[n] = *at;
		if (*at == '~')
			name[n] = *++at == '0' ? '~' : '/';
		n++;
	}
	name[n] = '\0';
	return at;
}

/* Make EDIT in ROOT. */
static void
edit(json_t *root, const struct policy_edit *e)
{
	json_t *value = *e->value != '\0' ? json_loads(e->value, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, NULL) : NULL, *at = root;
	bool adds = e->kind == POLICY_EDIT_JSON_SET || e->kind == POLICY_EDIT_JSON_DEFAULT;
	const char *rest = e->name;
	char name[2048];

	for (rest = next_name(rest, name); *rest != '\0'; rest = next_name(rest, name)) {
		json_t *child = json_object_get(at, name);

		if (child == NULL && adds) {
			child = json_object();
			json_object_set_new(at, name, child);
		}
		at = child;
	}
	if (e->kind == POLICY_EDIT_JSON_REMOVE) {
		if (json_is_object(at))
			json_object_del(at, name);
	} else if (e->kind == POLICY_EDIT_JSON_SET ||
	           (e->kind == POLICY_EDIT_JSON_DEFAULT &&
	            (json_object_get(at, name) == NULL || json_is_null(json_object_get(at, name)))) ||
	           (e->kind == POLICY_EDIT_JSON_MAX && json_is_number(json_object_get(at, name)) &&
	            json_number_value(json_object_get(at, name)) > json_number_value(value))) {
		assert(json_is_object(at));
		json_object_set(at, name, value);
	}
	json_decref(value);
}

static void
check_body(const struct policy_rewrite *rw, const char *body, size_t len)
{
	struct http_head head = { .length = len };
	OWN(buf_free) struct buf out;
	json_t *want, *got;
	uint64_t changed = 0;
	json_error_t why;

	buf_init(&out, 1 << 20);
	if (policy_rewrite_body(rw, &head, body, len, &out, &changed, NULL) < 0)
		return;
	if (len == 0 || !policy_rewrite_needs_body(rw, &head)) {
		assert(changed == 0 && out.len == len && (len == 0 || memcmp(out.data, body, len) == 0));
		return;
	}
	assert(changed != 0 || (out.len == len && memcmp(out.data, body, len) == 0));
	want = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &why);
	/* A number that jansson has no room for is one all the same. */
	if (want == NULL && json_error_code(&why) == json_error_numeric_overflow)
		return;
	assert(want != NULL);
	for (size_t i = 0; i < rw->n; i++)
		if (policy_edit_part(&rw->edits[i]) == POLICY_PART_BODY)
			edit(want, &rw->edits[i]);
	got = json_loadb((const char *)out.data, out.len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL,
	                 &why);
	assert(got != NULL ? json_equal(want, got) : json_error_code(&why) == json_error_numeric_overflow);
	json_decref(want);
	json_decref(got);
}

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

static void
check_head(const struct policy_rewrite *rw)
{
	struct http_head head = { .method = text_of("POST"), .host = text_of("a.example"),
		.path = text_of("/v1/a%20b?x=1&Y[]=2&z"), .port = 443, .scheme = HTTP_TLS, .length = 5,
		.n_fields = 3, .fields = { { text_of("content-type"), text_of("application/json") },
		                           { text_of("x_a"), text_of("1") }, { text_of("x-a"), text_of("2") } } };
	OWN(freep) char *path = NULL, *again = NULL;
	uint64_t changed = 0, more = 0;

	if (policy_rewrite_head(rw, &head, &path, &changed, NULL) < 0)
		return;
	assert(http_head_check(&head, NULL) == 0);
	assert(http_text_is(http_head_get(&head, "content-type"), "application/json"));
	for (size_t i = 0; i < rw->n; i++)
		if (rw->edits[i].kind == POLICY_EDIT_HEADER_REMOVE)
			assert(http_head_get(&head, rw->edits[i].name).len == 0);
		else if (rw->edits[i].kind == POLICY_EDIT_HEADER_SET)
			assert(http_text_is(http_head_get(&head, rw->edits[i].name), rw->edits[i].value));
	if (rw->edits[0].kind != POLICY_EDIT_PATH && (rw->n < 2 || rw->edits[1].kind != POLICY_EDIT_PATH)) {
		assert(policy_rewrite_head(rw, &head, &again, &more, NULL) == 0);
		assert(http_head_check(&head, NULL) == 0);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(policy_hook_answer_free) struct policy_hook_answer answer = {0};
	const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
	size_t n = line != NULL ? (size_t)(line - data) : size;
	char text[POLICY_EDIT_TEXT_MAX];

	if (policy_hook_get((const char *)data, n, &answer, NULL) < 0 || answer.rewrite == NULL)
		return 0;
	for (size_t i = 0; i < answer.rewrite->n; i++) {
		assert(policy_edit_check(&answer.rewrite->edits[i], NULL) == 0);
		assert(strlen(policy_edit_text(&answer.rewrite->edits[i], text)) < sizeof(text));
	}
	check_head(answer.rewrite);
	if (line != NULL)
		check_body(answer.rewrite, (const char *)line + 1, size - n - 1);
	return 0;
}
