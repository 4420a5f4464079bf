/* policy_hook.c - the question that a hook gets, and the answer that it gives. */
#include "policy/policy_hook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/canon_text.h"
#include "http/json_walk.h"
#include "policy/policy_edit.h"

/* ---- hooks of a policy ---- */

const struct policy_hook *
policy_hook_of(const struct policy *p, int rule)
{
	return rule < 0 ? NULL : policy_rule_at(p, (size_t)rule)->hook;
}

bool
policy_hooks(const struct policy *p)
{
	for (size_t i = 0; i < policy_n_rules(p); i++)
		if (policy_rule_at(p, i)->hook != NULL)
			return true;
	return false;
}

static bool
same_words(const char *const *a, const char *const *b)
{
	if (a == NULL || b == NULL)
		return a == b;
	while (*a != NULL && *b != NULL && strcmp(*a, *b) == 0) {
		a++;
		b++;
	}
	return *a == NULL && *b == NULL;
}

bool
policy_hook_same(const struct policy_hook *a, const struct policy_hook *b)
{
	if ((a->socket == NULL) != (b->socket == NULL) ||
	    (a->socket != NULL && strcmp(a->socket, b->socket) != 0))
		return false;
	return same_words(a->argv, b->argv) && a->timeout_ms == b->timeout_ms &&
	       a->body_max == b->body_max;
}

/* ---- the question ---- */

#define QUESTION_START "{\"id\":\""     /* cloister-hook finds the id behind it, without parsing */

static bool
is_utf8(struct http_text text)
{
	uint32_t code;
	size_t n;

	for (; text.len > 0; text.at += n, text.len -= n)
		if ((n = utf8_next(text.at, text.len, &code)) == 0)
			return false;
	return true;
}

/* Bytes that are not UTF-8 stand for themselves, as in Latin-1: heads may have them. */
static void
put_string(struct buf *b, struct http_text text)
{
	bool plain = is_utf8(text);

	buf_put(b, "\"", 1);
	for (size_t i = 0; !plain && i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];

		if (c < 0x80)
			canon_text_put(b, text.at + i, 1, false);
		else
			buf_put(b, (unsigned char[]){ (unsigned char)(0xc0 | c >> 6),
			        (unsigned char)(0x80 | (c & 0x3f)) }, 2);
	}
	if (plain)
		canon_text_put(b, text.at, text.len, false);
	buf_put(b, "\"", 1);
}

static void
put_member(struct buf *b, const char *name, struct http_text text)
{
	buf_put_text(b, ",\"");
	buf_put_text(b, name);
	buf_put_text(b, "\":");
	put_string(b, text);
}

static void
put_text(struct buf *b, const char *name, const char *text)
{
	put_member(b, name, (struct http_text){ text, strlen(text) });
}

/* Whether the field NAME usually carries a credential. */
static bool
is_credential(struct http_text name)
{
	static const char *const ends[] = { "authorization", "cookie", "token", "api-key", "apikey",
		"secret", "password", "signature", "credential", "access-key" };

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		size_t n = strlen(ends[i]);

		if (name.len >= n && policy_header_is_like((struct http_text){ name.at + name.len - n, n },
		                                           ends[i]))
			return true;
	}
	return false;
}

static void
put_headers(struct buf *b, const struct http_head *head)
{
	buf_put_text(b, ",\"headers\":[");
	for (size_t i = 0; i < head->n_fields; i++) {
		buf_put_text(b, i > 0 ? ",[" : "[");
		put_string(b, head->fields[i].name);
		buf_put_text(b, ",");
		if (is_credential(head->fields[i].name))
			buf_put_text(b, "null");
		else
			put_string(b, head->fields[i].value);
		buf_put_text(b, "]");
	}
	buf_put_text(b, "]");
}

static void
put_url(struct buf *b, const struct http_head *head)
{
	OWN(buf_free) struct buf url = BUF(HTTP_HEAD_MAX + HTTP_HOST_MAX + 64);
	char port[8] = "";

	if (head->port != (head->scheme == HTTP_TLS ? 443 : 80))
		snprintf(port, sizeof(port), ":%u", head->port);
	buf_put_text(&url, head->scheme == HTTP_TLS ? "https://" : "http://");
	buf_put(&url, head->host.at, head->host.len);
	buf_put_text(&url, port);
	if (head->path.len > 0 && *head->path.at == '/')
		buf_put(&url, head->path.at, head->path.len);
	b->failed |= buf_failed(&url);
	put_member(b, "url", (struct http_text){ (const char *)url.data, url.len });
}

void
policy_hook_put(struct buf *b, const struct policy_hook_question *question)
{
	const struct http_head *head = question->head;
	struct http_text body = { question->body, question->n_body };
	char port[24];

	buf_put_text(b, QUESTION_START);
	buf_put_text(b, question->id);
	buf_put_text(b, "\",\"version\":1");
	put_text(b, "cell", question->cell);
	put_text(b, "agent", question->agent);
	put_text(b, "principal", question->principal);
	put_text(b, "rule", question->rule);
	put_text(b, "place", question->place);
	put_member(b, "method", head->method);
	put_url(b, head);
	put_member(b, "host", head->host);
	snprintf(port, sizeof(port), ",\"port\":%u", head->port);
	buf_put_text(b, port);
	put_headers(b, head);
	if (question->has_body && is_utf8(body)) {
		put_member(b, "body", body);
	} else if (question->has_body) {
		buf_put_text(b, ",\"body_base64\":\"");
		codec_put_base64(b, body.at, body.len);
		buf_put_text(b, "\"");
	}
	buf_put_text(b, "}\n");
}

static bool
is_id(const char *text)
{
	unsigned char bytes[POLICY_HOOK_ID / 2];

	return codec_unhex_lower(text, bytes, sizeof(bytes));
}

bool
policy_hook_id(const void *text, size_t len, char ret_id[POLICY_HOOK_ID + 1])
{
	const size_t n = strlen(QUESTION_START);
	const char *id = (const char *)text + n;

	if (len <= n + POLICY_HOOK_ID || memcmp(text, QUESTION_START, n) != 0 || !is_id(id) ||
	    id[POLICY_HOOK_ID] != '"')
		return false;
	memcpy(ret_id, id, POLICY_HOOK_ID);
	ret_id[POLICY_HOOK_ID] = '\0';
	return true;
}

/* ---- the answer ---- */

const char *
policy_hook_stray(const char *text, size_t len, const char *id)
{
	struct json_walk_item item;

	switch (json_walk_member((struct http_text){ text, len }, "id", &item)) {
	case 1:
		return item.kind == JSON_WALK_STRING && json_walk_is(item.raw, id) ? NULL :
		       "answered another question: the id is not that of the question";
	case 0:
		return "answered without the id of the question";
	case -EEXIST:
		return "answered with two ids";
	default:
		return "answered with something that is not one JSON object";
	}
}

struct reading {
	struct json_walk w;
	struct json_walk_item item;
	struct policy_edits edits;
	struct policy_hook_answer answer;
	bool has_id, has_verdict, has_reason, has_rewrite;
	struct err *err;
};

static int
bad_answer(struct reading *rd, const char *why)
{
	return err_set(rd->err, EBADMSG, "the answer of the hook is invalid: %s", why);
}

/* Read the next item; the answer must not end here. */
static int
next(struct reading *rd)
{
	return json_walk_next(&rd->w, &rd->item) == 1 ? 0 : bad_answer(rd, "it is not one JSON object");
}

/* Decode the string RAW into TEXT, which has room for POLICY_TEXT_MAX bytes and a NUL. */
static int
decode(struct reading *rd, struct http_text raw, char text[POLICY_TEXT_MAX + 1])
{
	size_t n;

	if (json_walk_decode(raw, text, POLICY_TEXT_MAX, &n) < 0)
		return bad_answer(rd, "a text is too long");
	text[n] = '\0';
	return 0;
}

static int
read_id(struct reading *rd)
{
	char text[POLICY_TEXT_MAX + 1];
	int r;

	if (rd->item.kind != JSON_WALK_STRING)
		return bad_answer(rd, "its id is not a text");
	r = decode(rd, rd->item.raw, text);
	if (r == 0 && (strlen(text) != POLICY_HOOK_ID || !is_id(text)))
		r = bad_answer(rd, "its id is not that of a question");
	if (r == 0)
		memcpy(rd->answer.id, text, sizeof(rd->answer.id));
	return r;
}

static int
read_verdict(struct reading *rd)
{
	static const char *const words[] = { [POLICY_DENY] = "deny", [POLICY_ALLOW] = "allow",
	                                     [POLICY_ASK] = "ask" };

	for (unsigned i = 0; rd->item.kind == JSON_WALK_STRING && i < ARRAY_LEN(words); i++) {
		if (json_walk_is(rd->item.raw, words[i])) {
			rd->answer.verdict = i;
			return 0;
		}
	}
	return bad_answer(rd, "its verdict is not allow, deny or ask");
}

static int
read_reason(struct reading *rd)
{
	char *to = rd->answer.reason;
	char text[POLICY_TEXT_MAX + 1];
	uint32_t code;
	int r;

	if (rd->item.kind != JSON_WALK_STRING)
		return bad_answer(rd, "its reason is not a text");
	r = decode(rd, rd->item.raw, text);
	if (r < 0)
		return r;
	/* The reason is shown on one line. */
	for (size_t at = 0, n; text[at] != '\0'; at += n) {
		n = utf8_next(text + at, strlen(text + at), &code);
		if (n == 0)
			return bad_answer(rd, "its reason is not UTF-8");
		if ((size_t)(to - rd->answer.reason) + n > POLICY_HOOK_REASON_MAX)
			return bad_answer(rd, "its reason is too long");
		if (utf8_is_control(code))
			*to++ = ' ';
		else
			memcpy(to, text + at, n), to += n;
	}
	*to = '\0';
	return 0;
}

static int
add_edit(struct reading *rd, enum policy_edit_kind kind, struct http_text raw, const char *value)
{
	char name[POLICY_TEXT_MAX + 1];
	struct err why = {0};
	int r = decode(rd, raw, name);

	if (r == 0 && policy_edits_add(&rd->edits, kind, name, value, &why) < 0)
		r = bad_answer(rd, why.text);
	return r;
}

/* The value of a header or parameter is a text; of a JSON field it is any scalar. */
static int
add_value(struct reading *rd, enum policy_edit_kind kind)
{
	const struct policy_edit edit = { kind, "", "" };
	const struct json_walk_item *item = &rd->item;
	bool is_text = item->kind == JSON_WALK_STRING;
	char value[POLICY_TEXT_MAX + 1];
	int r = 0;

	if (policy_edit_part(&edit) != POLICY_PART_BODY) {
		r = is_text ? decode(rd, item->raw, value) : bad_answer(rd, "a value is not a text");
	} else {
		if (item->kind == JSON_WALK_OBJECT || item->kind == JSON_WALK_ARRAY ||
		    item->raw.len + 2 > POLICY_TEXT_MAX)
			return bad_answer(rd, "a value is not a short text, a number, true, false or null");
		snprintf(value, sizeof(value), "%s%.*s%s", is_text ? "\"" : "", (int)item->raw.len,
		         item->raw.at, is_text ? "\"" : "");
	}
	return r == 0 ? add_edit(rd, kind, item->name, value) : r;
}

/* The map or list of `set`, `remove` and so on. */
static int
read_word(struct reading *rd, const struct policy_edit_word *word)
{
	int r = 0;

	if (rd->item.kind != (word->has_value ? JSON_WALK_OBJECT : JSON_WALK_ARRAY))
		return bad_answer(rd, "`set`, `default` and `max` are objects, and `remove` is a list");
	while (r == 0 && (r = next(rd)) == 0 && rd->item.kind != JSON_WALK_CLOSE)
		r = word->has_value ? add_value(rd, word->kind) :
		    rd->item.kind != JSON_WALK_STRING ? bad_answer(rd, "a name is not a text") :
		    add_edit(rd, word->kind, rd->item.raw, "");
	return r;
}

static int
read_part(struct reading *rd, const char *part)
{
	int r = 0;

	if (rd->item.kind != JSON_WALK_OBJECT)
		return bad_answer(rd, "`query`, `headers` and `json` are objects");
	while (r == 0 && (r = next(rd)) == 0 && rd->item.kind != JSON_WALK_CLOSE) {
		size_t k = 0;

		while (k < policy_n_edit_words && (strcmp(policy_edit_words[k].part, part) != 0 ||
		                                   !json_walk_is(rd->item.name, policy_edit_words[k].word)))
			k++;
		r = k == policy_n_edit_words ? bad_answer(rd, "its rewrite has an unknown name") :
		    read_word(rd, &policy_edit_words[k]);
	}
	return r;
}

static int
read_host(struct reading *rd)
{
	char text[POLICY_TEXT_MAX + 1];
	struct err why = {0};
	int r = rd->item.kind == JSON_WALK_STRING ? decode(rd, rd->item.raw, text) :
	        bad_answer(rd, "`host` is a text");

	if (r == 0 && policy_edits_add_host(&rd->edits, text, &why) < 0)
		r = bad_answer(rd, why.text);
	return r;
}

static int
read_path(struct reading *rd)
{
	char from[POLICY_TEXT_MAX + 1] = "", to[POLICY_TEXT_MAX + 1] = "";
	struct err why = {0};
	int r = rd->item.kind == JSON_WALK_OBJECT ? 0 : bad_answer(rd, "`path` is an object");

	while (r == 0 && (r = next(rd)) == 0 && rd->item.kind != JSON_WALK_CLOSE) {
		bool is_from = json_walk_is(rd->item.name, "from");

		if (rd->item.kind != JSON_WALK_STRING || (!is_from && !json_walk_is(rd->item.name, "to")) ||
		    *(is_from ? from : to) != '\0')
			return bad_answer(rd, "`path` has the texts `from` and `to`, once each");
		r = decode(rd, rd->item.raw, is_from ? from : to);
	}
	if (r == 0 && policy_edits_add(&rd->edits, POLICY_EDIT_PATH, from, to, &why) < 0)
		r = bad_answer(rd, why.text);
	return r;
}

static int
read_rewrite(struct reading *rd)
{
	static const char *const parts[] = { "query", "headers", "json" };
	int r = 0;

	if (rd->item.kind != JSON_WALK_OBJECT)
		return bad_answer(rd, "its rewrite is not an object");
	while (r == 0 && (r = next(rd)) == 0 && rd->item.kind != JSON_WALK_CLOSE) {
		size_t k = 0;

		while (k < ARRAY_LEN(parts) && !json_walk_is(rd->item.name, parts[k]))
			k++;
		r = k < ARRAY_LEN(parts) ? read_part(rd, parts[k]) :
		    json_walk_is(rd->item.name, "host") ? read_host(rd) :
		    json_walk_is(rd->item.name, "path") ? read_path(rd) :
		    bad_answer(rd, "its rewrite has an unknown name");
	}
	if (r == 0 && rd->edits.n == 0)
		r = bad_answer(rd, "its rewrite changes nothing");
	return r;
}

static int
read_answer(struct reading *rd)
{
	static const struct {
		const char *name;
		int (*read)(struct reading *rd);
		size_t seen;
	} members[] = {
		{ "id", read_id, offsetof(struct reading, has_id) },
		{ "verdict", read_verdict, offsetof(struct reading, has_verdict) },
		{ "reason", read_reason, offsetof(struct reading, has_reason) },
		{ "rewrite", read_rewrite, offsetof(struct reading, has_rewrite) },
	};
	int r = next(rd);

	if (r == 0 && rd->item.kind != JSON_WALK_OBJECT)
		r = bad_answer(rd, "it is not one JSON object");
	while (r == 0 && (r = next(rd)) == 0 && rd->item.kind != JSON_WALK_CLOSE) {
		bool *seen;
		size_t k = 0;

		while (k < ARRAY_LEN(members) && !json_walk_is(rd->item.name, members[k].name))
			k++;
		if (k == ARRAY_LEN(members))
			return bad_answer(rd, "it has a name other than id, verdict, reason and rewrite");
		seen = (bool *)((char *)rd + members[k].seen);
		if (*seen)
			return bad_answer(rd, "it has a name twice");
		*seen = true;
		r = members[k].read(rd);
	}
	if (r == 0 && json_walk_next(&rd->w, &rd->item) != 0)
		r = bad_answer(rd, "it is not one JSON object");
	if (r == 0 && !rd->has_id)
		r = bad_answer(rd, "it has no id");
	if (r == 0 && !rd->has_verdict)
		r = bad_answer(rd, "it has no verdict");
	if (r == 0 && rd->has_rewrite && rd->answer.verdict == POLICY_DENY)
		r = bad_answer(rd, "it denies, and has a rewrite");
	return r;
}

int
policy_hook_get(const char *text, size_t len, struct policy_hook_answer *ret_answer,
                struct err *err)
{
	OWN(policy_freep) struct policy *memory = policy_new_empty();
	struct reading rd = { .edits = { .p = memory }, .err = err };
	int r;

	if (memory == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (len > POLICY_HOOK_ANSWER_MAX)
		return bad_answer(&rd, "it is too long");
	json_walk_begin(&rd.w, (struct http_text){ text, len });
	r = read_answer(&rd);
	if (r < 0)
		return r;
	if (rd.has_rewrite) {
		rd.answer.rewrite = policy_edits_done(&rd.edits);
		if (rd.answer.rewrite == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	rd.answer.memory = TAKE(memory);
	*ret_answer = rd.answer;
	return 0;
}

void
policy_hook_answer_free(struct policy_hook_answer *answer)
{
	policy_free(answer->memory);
	*answer = (struct policy_hook_answer){0};
}
