/* policy_rewrite_json.c - edits fields of a JSON body in place: all other bytes stay as they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "http/json_walk.h"
#include "policy/policy_edit.h"

#define NUMBER_MAX 256                  /* characters of a number that is compared */

/* ---- pointers ---- */

/* The names of a JSON pointer, decoded. */
struct pointer {
	char text[POLICY_TEXT_MAX + 1];
	struct http_text names[POLICY_POINTER_DEPTH_MAX];
	size_t n;
};

static int
split_pointer(const char *text, struct pointer *p, struct err *err)
{
	char *out = p->text;

	p->n = 0;
	if (*text != '/')
		return err_set(err, EINVAL, "a JSON pointer begins with '/': write /%.64s", text);
	while (*text == '/') {
		struct http_text *name = &p->names[p->n];

		if (p->n == POLICY_POINTER_DEPTH_MAX)
			return err_set(err, EINVAL, "a pointer to a field has at most %d names",
			               POLICY_POINTER_DEPTH_MAX);
		*name = (struct http_text){ out, 0 };
		for (text++; *text != '\0' && *text != '/'; text++) {
			*out = *text;
			if (*text == '~') {
				if (text[1] != '0' && text[1] != '1')
					return err_set(err, EINVAL,
					               "in a JSON pointer '~' is written ~0, and '/' ~1");
				*out = *++text == '0' ? '~' : '/';
			}
			out++;
		}
		name->len = (size_t)(out - name->at);
		if (name->len == 1 && *name->at == '*')
			return err_set(err, EINVAL, "a '*' in a pointer stands for many fields: name each one");
		p->n++;
	}
	return 0;
}

int
policy_edit_check_json(const struct policy_edit *edit, struct err *err)
{
	struct json_walk_item item, end;
	struct pointer pointer;
	struct json_walk w;
	int r = split_pointer(edit->name, &pointer, err);

	if (r < 0 || edit->kind == POLICY_EDIT_JSON_REMOVE)
		return r;
	json_walk_begin(&w, (struct http_text){ edit->value, strlen(edit->value) });
	if (json_walk_next(&w, &item) != 1 || item.kind == JSON_WALK_OBJECT ||
	    item.kind == JSON_WALK_ARRAY || json_walk_next(&w, &end) != 0)
		return err_set(err, EINVAL, "the value for '%.64s' is a word, a number, true, false or null",
		               edit->name);
	if (edit->kind == POLICY_EDIT_JSON_MAX &&
	    (item.kind != JSON_WALK_NUMBER || item.raw.len >= NUMBER_MAX))
		return err_set(err, EINVAL, "`max` of '%.64s' must be a number", edit->name);
	return 0;
}

/* ---- names that occur twice ---- */

/* The names of all open objects, folded: some readers ignore case. */
struct names {
	struct buf text;                /* the names, each with its length before it */
	struct name { size_t at, len; } *list;
	size_t n, cap;
	size_t first[JSON_WALK_DEPTH_MAX];      /* of each open object */
};

static void
names_free(struct names *names)
{
	buf_free(&names->text);
	free(names->list);
}

static int
add_name(struct names *names, struct http_text raw)
{
	unsigned char *out = buf_add(&names->text, raw.len);
	size_t len, n = 0, at = names->text.len - raw.len;
	const char *from, *end;

	if (names->n == names->cap) {
		size_t cap = names->cap > 0 ? 2 * names->cap : 64;
		struct name *list = reallocarray(names->list, cap, sizeof(*list));

		if (list == NULL)
			return -ENOMEM;
		names->list = list;
		names->cap = cap;
	}
	if (raw.len > 0 && (out == NULL || json_walk_decode(raw, (char *)out, raw.len, &len) < 0))
		return -ENOMEM;
	from = (const char *)out;
	end = raw.len > 0 ? from + len : from;
	while (from < end)
		out[n++] = json_walk_fold(&from, end);
	names->list[names->n++] = (struct name){ at, n };
	return 0;
}

static int
compare_names(const void *a, const void *b, void *text)
{
	const struct name *l = a, *r = b;
	size_t n = l->len < r->len ? l->len : r->len;
	int d = n > 0 ? memcmp((const char *)text + l->at, (const char *)text + r->at, n) : 0;

	return d != 0 ? d : l->len < r->len ? -1 : l->len > r->len;
}

/* Whether a name of the innermost object occurs twice.  Forgets its names. */
static bool
close_names(struct names *names, size_t depth)
{
	size_t first = names->first[depth], n = names->n - first;
	struct name *list = names->list + first;
	size_t text = n > 0 ? list[0].at : names->text.len;
	bool twice = false;

	if (n > 1)
		qsort_r(list, n, sizeof(*list), compare_names, names->text.data);
	for (size_t i = 1; i < n && !twice; i++)
		twice = compare_names(&list[i - 1], &list[i], names->text.data) == 0;
	names->n = first;
	names->text.len = text;
	return twice;
}

static int
check_body(struct http_text body, struct err *err)
{
	OWN(names_free) struct names names = {0};
	struct json_walk_item item;
	struct json_walk w;
	int r;

	buf_init(&names.text, body.len);
	json_walk_begin(&w, body);
	while ((r = json_walk_next(&w, &item)) == 1) {
		if (item.kind != JSON_WALK_CLOSE && item.name.at != NULL && add_name(&names, item.name) < 0)
			return err_set(err, ENOMEM, "out of memory");
		if (item.kind == JSON_WALK_OBJECT)
			names.first[item.depth] = names.n;
		if (item.kind == JSON_WALK_CLOSE && *item.raw.at == '{' && close_names(&names, item.depth))
			return err_set(err, EINVAL, "the body has a name twice in one object, so the rule "
			               "cannot rewrite it");
	}
	if (r == -E2BIG)
		return err_set(err, EINVAL, "the body is nested too deeply for the rule to rewrite it");
	return r == 0 ? 0 : err_set(err, EINVAL, "the body is not valid JSON, so the rule cannot rewrite "
	                            "it");
}

/* ---- finding a field ---- */

/* The place of a field, or the place to put it. */
struct place {
	size_t level;                   /* names of the pointer that lead to objects */
	bool found;
	enum json_walk_kind kind;       /* found: of its value */
	const char *name, *value, *end; /* found: the quote of its name; its value, from and to */
	const char *before;             /* found: the end of the member before, or of the "{" */
	const char *last;               /* not found: the end of the object's last member, or of the
	                                 * "{" */
	bool is_empty;                  /* not found: the object has no member */
	bool is_blocked;                /* not found: a name on the way has no object */
};

static bool
folds_to(struct http_text raw, struct http_text name)
{
	char decoded[POLICY_TEXT_MAX * 3];
	const char *l = decoded, *r = name.at;
	unsigned char a, b;
	size_t len;

	/* A longer name cannot fold to it: folding shortens a character by two bytes at most. */
	if (json_walk_decode(raw, decoded, sizeof(decoded), &len) < 0)
		return false;
	do {
		a = json_walk_fold(&l, decoded + len);
		b = json_walk_fold(&r, name.at + name.len);
	} while (a == b && a != '\0');
	return a == b;
}

static const char *
end_of(const struct json_walk_item *item)
{
	return item->raw.at + item->raw.len + (item->kind == JSON_WALK_STRING);
}

/* Find the field in BODY, which is valid and an object. */
static int
find_field(struct http_text body, const struct pointer *pointer, struct place *ret_place,
           struct err *err)
{
	struct place place = {0};
	struct json_walk_item item;
	const char *before = NULL;
	struct json_walk w;
	bool inside = false;            /* the found field's value is an open object or array */

	json_walk_begin(&w, body);
	(void)json_walk_next(&w, &item);
	before = place.last = item.raw.at + 1;
	place.is_empty = true;
	while (json_walk_next(&w, &item) == 1) {
		const struct http_text *name = &pointer->names[place.level];

		if (item.depth == place.level && item.kind == JSON_WALK_CLOSE)
			break;
		if (item.depth != place.level + 1)
			continue;
		if (item.kind == JSON_WALK_CLOSE) {
			before = end_of(&item);
			if (inside)
				place.end = before;
			inside = false;
		} else if (!place.found && folds_to(item.name, *name)) {
			char exact[POLICY_TEXT_MAX + 1];

			memcpy(exact, name->at, name->len);
			exact[name->len] = '\0';
			if (!json_walk_is(item.name, exact))
				return err_set(err, EINVAL, "the body has '%.*s', which some servers take for '%s': "
				               "the rule cannot rewrite it",
				               (int)(item.name.len < 64 ? item.name.len : 64), item.name.at, exact);
			if (place.level + 1 < pointer->n) {
				place.is_blocked = item.kind != JSON_WALK_OBJECT;
				place.kind = item.kind;
				if (place.is_blocked)
					break;
				place.level++;
				place.is_empty = true;
				before = place.last = item.raw.at + 1;
				continue;
			}
			place.found = true;
			place.kind = item.kind;
			place.name = item.name.at - 1;
			place.before = before;
			place.value = item.raw.at - (item.kind == JSON_WALK_STRING);
			place.end = end_of(&item);
			inside = item.kind == JSON_WALK_OBJECT || item.kind == JSON_WALK_ARRAY;
			before = place.end;
		} else if (item.kind != JSON_WALK_OBJECT && item.kind != JSON_WALK_ARRAY) {
			before = end_of(&item);
		}
		place.is_empty = false;
		place.last = before;
	}
	*ret_place = place;
	return 0;
}

/* ---- edits ---- */

static void
put_between(struct buf *out, const char *from, const char *to)
{
	buf_put(out, from, (size_t)(to - from));
}

static void
put_name(struct buf *out, struct http_text name)
{
	buf_put(out, "\"", 1);
	canon_text_put(out, name.at, name.len, false);
	buf_put(out, "\":", 2);
}

/* The field is missing: add it, in new objects if need be. */
static int
insert(struct http_text body, const struct policy_edit *edit, const struct pointer *pointer,
       const struct place *place, struct buf *out, struct err *err)
{
	if (place->is_blocked)
		return err_set(err, EINVAL, "the body has no object in which the rule could set '%s'",
		               edit->name);
	put_between(out, body.at, place->last);
	if (!place->is_empty)
		buf_put(out, ",", 1);
	for (size_t i = place->level; i < pointer->n; i++) {
		buf_put(out, "{", i > place->level ? 1 : 0);
		put_name(out, pointer->names[i]);
	}
	buf_put_text(out, edit->value);
	for (size_t i = place->level + 1; i < pointer->n; i++)
		buf_put(out, "}", 1);
	put_between(out, place->last, body.at + body.len);
	return 0;
}

static void
replace(struct http_text body, const struct policy_edit *edit, const struct place *place,
        struct buf *out)
{
	put_between(out, body.at, place->value);
	buf_put_text(out, edit->value);
	put_between(out, place->end, body.at + body.len);
}

/* Remove the field with one comma: the one behind it, or else the one before. */
static void
cut(struct http_text body, const struct place *place, struct buf *out)
{
	const char *from = place->name, *to = place->end, *end = body.at + body.len;

	while (to < end && strchr(" \t\r\n", *to) != NULL)
		to++;
	if (*to == ',') {
		to++;
	} else {
		from = place->before;
		to = place->end;
	}
	put_between(out, body.at, from);
	put_between(out, to, end);
}

/* Whether the found number is over the edit's. */
static int
is_over(const struct policy_edit *edit, const struct place *place, bool *ret_over, struct err *err)
{
	char number[NUMBER_MAX];
	size_t n = (size_t)(place->end - place->value);

	if (place->kind != JSON_WALK_NUMBER || n >= sizeof(number))
		return err_set(err, EINVAL, "the body's '%s' is not a number, so the rule cannot limit it",
		               edit->name);
	memcpy(number, place->value, n);
	number[n] = '\0';
	*ret_over = strtod(number, NULL) > strtod(edit->value, NULL);
	return 0;
}

/* Append BODY with the edit made. */
static int
make_edit(const struct policy_edit *edit, struct http_text body, struct buf *out, struct err *err)
{
	struct pointer pointer;
	struct place place = {0};
	bool is_over_max = false, is_missing;
	int r = split_pointer(edit->name, &pointer, err);

	r = r == 0 ? find_field(body, &pointer, &place, err) : r;
	if (r < 0)
		return r;
	/* Its items may have the field; a server that takes one item or many reads it there. */
	if (place.is_blocked && place.kind == JSON_WALK_ARRAY &&
	    (edit->kind == POLICY_EDIT_JSON_MAX || edit->kind == POLICY_EDIT_JSON_REMOVE))
		return err_set(err, EINVAL, "the body has a list on the way to '%s', which the rule cannot rewrite",
		               edit->name);
	is_missing = !place.found || place.kind == JSON_WALK_NULL;
	switch (edit->kind) {
	case POLICY_EDIT_JSON_MAX:
		r = is_missing ? 0 : is_over(edit, &place, &is_over_max, err);
		if (is_over_max)
			replace(body, edit, &place, out);
		else
			buf_put(out, body.at, body.len);
		return r;
	case POLICY_EDIT_JSON_REMOVE:
		if (place.found)
			cut(body, &place, out);
		else
			buf_put(out, body.at, body.len);
		return 0;
	case POLICY_EDIT_JSON_DEFAULT:
		if (!is_missing) {
			buf_put(out, body.at, body.len);
			return 0;
		}
		break;
	default:
		break;
	}
	if (!place.found)
		return insert(body, edit, &pointer, &place, out, err);
	replace(body, edit, &place, out);
	return 0;
}

static int
check_head(const struct http_head *head, struct http_text body, struct err *err)
{
	struct json_walk_item item;
	struct json_walk w;

	if (http_head_is_packed(head))
		return err_set(err, EINVAL, "the body is compressed, so the rule cannot rewrite it: send it "
		               "uncompressed");
	if (!http_type_is_json(http_head_get(head, "content-type")))
		return err_set(err, EINVAL, "the content-type is not JSON, so the rule cannot rewrite the "
		               "body: add `content_type` to the rule");
	json_walk_begin(&w, body);
	if (json_walk_next(&w, &item) == 1 && item.kind != JSON_WALK_OBJECT)
		return err_set(err, EINVAL, "the body is not a JSON object, so the rule cannot rewrite it");
	return 0;
}

int
policy_rewrite_body(const struct policy_rewrite *rw, const struct http_head *head,
                    const char *body, size_t len, struct buf *out, uint64_t *ret_changed,
                    struct err *err)
{
	struct http_text now = { body, len };
	OWN(buf_free) struct buf kept = {0};
	uint64_t changed = 0;
	bool is_checked = len == 0;
	int r = 0;

	for (size_t i = 0; r == 0 && len > 0 && i < rw->n; i++) {
		const struct policy_edit *edit = &rw->edits[i];
		struct buf next;

		if (policy_edit_part(edit) != POLICY_PART_BODY)
			continue;
		if (!is_checked) {
			r = check_head(head, now, err);
			r = r == 0 ? check_body(now, err) : r;
			is_checked = true;
		}
		buf_init(&next, out->max);
		r = r == 0 ? make_edit(edit, now, &next, err) : r;
		if (r == 0 && buf_failed(&next))
			r = err_set(err, E2BIG, "the body is too long after rewriting");
		if (r == 0 && (next.len != now.len || memcmp(next.data, now.at, now.len) != 0))
			changed |= 1ULL << i;
		buf_free(&kept);
		kept = next;
		now = (struct http_text){ (const char *)kept.data, kept.len };
	}
	if (r < 0)
		return r;
	buf_put(out, now.at, now.len);
	if (buf_failed(out))
		return err_set(err, E2BIG, "the body is too long after rewriting");
	*ret_changed = changed;
	return 0;
}
