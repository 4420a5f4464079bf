/* swap_head.c - searches the parts of a head, also inside the base64 of Basic. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/codec.h"
#include "base/err.h"
#include "sign/sign.h"
#include "sign/swap_parts.h"

struct head {
	const struct swap_heads *how;
	struct sign_memory *memory;
	struct err *err;
	bool may_replace;
	struct swap_hit hit;            /* the first match in the text */
};

static struct http_text
text_at(const char *at, size_t len)
{
	return (struct http_text){ at, len };
}

/* ---- one text ---- */

static int
too_large(struct head *h)
{
	return err_set(h->err, E2BIG, "the head would be too large with the credentials in it");
}

static int
append(struct head *h, const void *data, size_t len)
{
	if (len > sizeof(h->memory->at) - h->memory->used)
		return too_large(h);
	memcpy(h->memory->at + h->memory->used, data, len);
	h->memory->used += len;
	return 0;
}

static int
sink(void *arg, const unsigned char *data, size_t len)
{
	return append(arg, data, len);
}

static enum swap_verdict
judge(void *arg, const struct swap_seen *seen)
{
	struct head *h = arg;
	enum swap_verdict verdict = h->how->judge(h->how->arg, seen);

	return verdict == SWAP_REPLACE && !h->may_replace ? SWAP_LEAVE : verdict;
}

static bool
is_clear(struct head *h, struct http_text text)
{
	return text.len < SWAP_NEEDLE_MIN ||
	       swap_find(h->how->set, (const unsigned char *)text.at, text.len, 0, true,
	                 &h->hit) == SWAP_NONE;
}

/* Write TEXT with its replacements to the end of memory.  FIRST is the first match in it (NULL:
 * unknown).  *RET_CHANGED: something was replaced. */
static int
rewrite_from(struct head *h, enum swap_place place, struct http_text name, struct http_text text,
             const struct swap_hit *first, bool *ret_changed)
{
	struct swap_stream s = { .set = h->how->set, .place = place, .lengths = h->how->lengths,
		.judge = judge, .sink = sink, .arg = h, .name = name };
	int r = swap_whole(&s, text.at, text.len, first, h->err);

	if (s.n_replaced > 0)
		*ret_changed = true;
	return r;
}

static int
rewrite(struct head *h, enum swap_place place, struct http_text name, struct http_text text,
        bool *ret_changed)
{
	return rewrite_from(h, place, name, text, NULL, ret_changed);
}

static int
swap_text(struct head *h, enum swap_place place, struct http_text name, struct http_text *text)
{
	size_t from = h->memory->used;
	bool changed = false;
	int r;

	if (is_clear(h, *text))
		return 0;
	r = rewrite_from(h, place, name, *text, &h->hit, &changed);
	if (r == 0 && changed)
		*text = text_at(h->memory->at + from, h->memory->used - from);
	else
		h->memory->used = from;
	return r;
}

/* ---- Basic ---- */

/* Decode the base64 in TEXT to the end of memory.  *RET_IS: it is base64. */
static int
decode(struct head *h, struct http_text text, bool *ret_is)
{
	struct sign_memory *m = h->memory;
	uint32_t bits = 0;
	size_t n = 0;

	while (text.len > 0 && text.at[text.len - 1] == '=' && n < 2) {
		text.len--;
		n++;
	}
	*ret_is = false;
	if ((n > 0 && (text.len + n) % 4 != 0) || text.len % 4 == 1)
		return 0;
	if (text.len / 4 * 3 + 3 > sizeof(m->at) - m->used)
		return too_large(h);
	for (size_t i = 0; i < text.len; i++) {
		int v = codec_base64_value((unsigned char)text.at[i]);

		if (v < 0)
			return 0;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 > 0)
			m->at[m->used++] = (char)(bits >> (6 - 2 * (i % 4)));
	}
	*ret_is = true;
	return 0;
}

static int
encode(struct head *h, struct http_text text)
{
	for (size_t i = 0; i < text.len; i += 3) {
		char out[4];
		size_t n = codec_base64_digits(CODEC_BASE64, text.at + i, text.len - i < 3 ? text.len - i : 3, out);

		if (append(h, out, n) < 0)
			return -E2BIG;
	}
	return 0;
}

/* The length of "Basic " and the blanks after it; 0 if it is something else. */
static size_t
basic_begin(struct http_text value)
{
	size_t n = 6;

	if (value.len < n || strncasecmp(value.at, "basic ", n) != 0)
		return 0;
	while (n < value.len && value.at[n] == ' ')
		n++;
	return n;
}

/* Search user and password separately, then join them again. */
static int
swap_basic(struct head *h, const struct http_field *f, struct http_text plain,
           struct http_text *ret_value, bool *ret_changed)
{
	const char *colon = memchr(plain.at, ':', plain.len);
	size_t user = colon == NULL ? plain.len : (size_t)(colon - plain.at);
	size_t joined = h->memory->used, coded;
	int r = rewrite(h, SWAP_BASIC_USER, f->name, text_at(plain.at, user), ret_changed);

	if (r == 0 && colon != NULL)
		r = append(h, ":", 1);
	if (r == 0 && colon != NULL)
		r = rewrite(h, SWAP_BASIC_PASSWORD, f->name,
		            text_at(colon + 1, plain.len - user - 1), ret_changed);
	if (r < 0 || !*ret_changed)
		return r;
	coded = h->memory->used;
	r = append(h, "Basic ", 6);
	if (r == 0)
		r = encode(h, text_at(h->memory->at + joined, coded - joined));
	*ret_value = text_at(h->memory->at + coded, h->memory->used - coded);
	return r;
}

static int
swap_authorization(struct head *h, struct http_field *f)
{
	size_t from = h->memory->used, begin = basic_begin(f->value);
	struct http_text plain = text_at(h->memory->at + from, 0);
	bool is_basic = false, changed = false;
	int r = 0;

	if (begin > 0)
		r = decode(h, text_at(f->value.at + begin, f->value.len - begin), &is_basic);
	if (r < 0)
		return r;
	if (!is_basic) {
		h->memory->used = from;
		return swap_text(h, SWAP_HEADER, f->name, &f->value);
	}
	plain.len = h->memory->used - from;
	if (!is_clear(h, plain))
		r = swap_basic(h, f, plain, &f->value, &changed);
	if (!changed)
		h->memory->used = from;
	/* The needle may also be there unencoded, or in a form of the set. */
	return r == 0 && !changed ? swap_text(h, SWAP_HEADER, f->name, &f->value) : r;
}

/* ---- the whole head ---- */

static int
swap_path(struct head *h, struct http_text *path)
{
	const char *mark = memchr(path->at, '?', path->len);
	size_t n = mark == NULL ? path->len : (size_t)(mark - path->at), from = h->memory->used;
	struct http_text query = text_at(path->at + n, path->len - n);
	bool changed = false;
	int r;

	if (is_clear(h, text_at(path->at, n)) && is_clear(h, query))
		return 0;
	r = rewrite(h, SWAP_PATH, text_at(NULL, 0), text_at(path->at, n), &changed);
	if (r == 0)
		r = rewrite(h, SWAP_QUERY, text_at(NULL, 0), query, &changed);
	if (r == 0 && changed)
		*path = text_at(h->memory->at + from, h->memory->used - from);
	else
		h->memory->used = from;
	return r;
}

/* A name has no case, and cannot be rewritten: its field is removed or stays. */
static int
judge_name(struct head *h, const struct http_field *f, bool *ret_goes)
{
	struct swap_seen seen = { .place = SWAP_NAME, .name = f->name, .len = f->name.len };

	*ret_goes = false;
	if (f->name.len < SWAP_NEEDLE_MIN || !swap_find_name(h->how->set, f->name, &seen.needle, &seen.form))
		return 0;
	switch (h->how->judge(h->how->arg, &seen)) {
	case SWAP_STOP:
		return err_set(h->err, EACCES, "it carries a credential that may not go there");
	case SWAP_REPLACE:
		*ret_goes = true;
		break;
	case SWAP_LEAVE:
		break;
	}
	return 0;
}

static int
swap_field(struct head *h, struct http_field *f)
{
	h->may_replace = true;
	return http_text_is(f->name, "authorization") ? swap_authorization(h, f)
	                                              : swap_text(h, SWAP_HEADER, f->name, &f->value);
}

int
swap_fields(const struct swap_heads *how, struct http_field *fields, size_t *n, struct sign_memory *m,
            struct err *err)
{
	struct head h = { .how = how, .memory = m, .err = err };
	size_t kept = 0;
	bool goes;

	for (size_t i = 0; i < *n; i++) {
		int r = judge_name(&h, &fields[i], &goes);

		if (r == 0 && !goes)
			r = swap_field(&h, &fields[i]);
		if (r < 0)
			return r;
		if (!goes)
			fields[kept++] = fields[i];
	}
	*n = kept;
	return 0;
}

int
swap_head(const struct swap_heads *how, struct http_head *head, struct sign_memory *m,
          struct err *err)
{
	struct head h = { .how = how, .memory = m, .err = err };
	int r = 0;

	if (head->status == 0) {
		r = swap_text(&h, SWAP_HOST, text_at(NULL, 0), &head->host);
		h.may_replace = true;
		if (r == 0)
			r = swap_path(&h, &head->path);
	}
	return r == 0 ? swap_fields(how, head->fields, &head->n_fields, m, err) : r;
}

/* ---- response formats ---- */

int
swap_ask_plain(struct http_head *head, struct err *err)
{
	http_head_drop(head, "accept-encoding");
	http_head_drop(head, "sec-websocket-extensions");
	if (head->n_fields == HTTP_FIELDS_MAX)
		return err_set(err, E2BIG, "the head has too many fields");
	head->fields[head->n_fields++] = (struct http_field){
		text_at("accept-encoding", 15), text_at("identity", 8) };
	return 0;
}

bool
swap_is_plain(const struct http_head *head)
{
	/* Each field of this name: there may be several. */
	for (size_t i = 0; i < head->n_fields; i++)
		if (http_text_is(head->fields[i].name, "sec-websocket-extensions") &&
		    head->fields[i].value.len > 0)
			return false;
	return !http_head_is_packed(head);
}
