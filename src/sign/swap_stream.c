/* swap_stream.c - searches a stream in pieces: holds bytes back, passes them on, or replaces them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "sign/swap_parts.h"

#define JOINED 256                      /* new bytes that are first appended to those held */

int
swap_put(struct swap_out *out, const unsigned char *data, size_t len)
{
	size_t skip = out->skip < len ? out->skip : len;

	out->skip -= skip;
	return len > skip ? out->sink(out->arg, data + skip, len - skip) : 0;
}

/* Pass on the bytes from FROM to TO of AT, which may be HELD. */
static int
pass(struct swap_stream *s, const unsigned char *at, size_t from, size_t to)
{
	if (from < s->gone)
		from = s->gone < to ? s->gone : to;
	return to > from ? s->sink(s->arg, at + from, to - from) : 0;
}

/* ---- one needle ---- */

static enum swap_verdict
ask(struct swap_stream *s, const struct swap_hit *hit)
{
	const struct pattern *p = &s->set->patterns[hit->pattern];
	struct swap_seen seen = {
		.needle = p->needle, .place = s->place, .name = s->name,
		.at = s->before + hit->start, .len = hit->end - hit->start, .form = p->form,
		.percent = (hit->escapes & SWAP_BY_PERCENT) != 0, .json = (hit->escapes & SWAP_BY_JSON) != 0,
	};

	s->n_seen++;
	return s->judge(s->arg, &seen);
}

/* Pass on the bytes before HIT, and treat HIT as judged.  Then *DONE is behind it. */
static int
deal_with(struct swap_stream *s, const unsigned char *at, size_t len, struct swap_hit *hit,
          size_t *done, struct err *err)
{
	struct swap_out out = { .sink = s->sink, .arg = s->arg };
	enum swap_verdict verdict = ask(s, hit);
	int64_t grown = 0;
	int r;

	if (verdict == SWAP_STOP)
		return err_set(err, EACCES, "it carries a credential that may not go there");
	if (verdict == SWAP_LEAVE) {
		r = pass(s, at, *done, hit->start);
		s->replacing = true;
		if (r == 0)
			r = pass(s, at, hit->start, hit->end);
		s->replacing = false;
		*done = hit->end;
		return r;
	}
	swap_widen(s->set, at, len, *done, hit);
	r = pass(s, at, *done, hit->start);
	if (r < 0)
		return r;
	out.skip = s->gone > hit->start ? s->gone - hit->start : 0;
	s->replacing = true;
	r = swap_render(s, at, hit, &out, &grown, err);
	s->replacing = false;
	*done = hit->end;
	s->n_replaced++;
	s->grown += grown;
	return r;
}

/* ---- guesses ---- */

/* The length of the common prefix of a value and its placeholder, which the agent knows. */
static size_t
shared(const struct swap_needle *needle)
{
	size_t n = 0;

	while (n < needle->find.len && n < needle->with.len && needle->find.at[n] == needle->with.at[n])
		n++;
	return n;
}

static bool
is_near(const struct swap_set *set, const struct swap_walk *w)
{
	for (uint32_t i = w->lo; w->depth >= SWAP_NEAR && i < w->end; i++) {
		const struct pattern *p = &set->patterns[i];

		if (w->depth >= swap_form_len(p->form, p->phase,
		                              shared(&set->needles[p->needle]) + SWAP_NEAR))
			return true;
	}
	return false;
}

/* All bytes so far were examined; those held wait for more. */
static void
look_at_held(struct swap_stream *s)
{
	for (unsigned i = 0; s->missed != NULL && s->is_walking && !s->is_near && i < SWAP_WALKS; i++)
		s->is_near = is_near(s->set, &s->walk[i]);
}

static void
miss(struct swap_stream *s)
{
	if (s->is_near && s->missed != NULL)
		s->missed(s->arg);
	s->is_near = false;
}

/* DONE of LEN bytes are settled, and KEEP could be: returns how many are settled now. */
static size_t
steady(const struct swap_stream *s, size_t len, size_t done, size_t keep)
{
	size_t even = len > SWAP_STEADY ? len - SWAP_STEADY : 0;

	if (s->steady == NULL || !*s->steady || even >= keep)
		return keep;
	return even > done ? even : done;
}

/* ---- a run of bytes ---- */

static void
save(struct swap_stream *s, const struct swap_hit *hit, size_t keep)
{
	s->is_walking = true;
	s->start = hit->start - keep;
	memcpy(s->walk, hit->walk, sizeof(s->walk));
}

/* Find the first needle, or the rest of the current candidate. */
static enum swap_found
find_first(struct swap_stream *s, const unsigned char *at, size_t len, bool last,
           struct swap_hit *ret_hit)
{
	enum swap_found found;

	if (!s->is_walking)
		return swap_find(s->set, at, len, 0, last, ret_hit);
	s->is_walking = false;
	*ret_hit = (struct swap_hit){ .start = s->start };
	memcpy(ret_hit->walk, s->walk, sizeof(s->walk));
	found = swap_find_on(s->set, at, len, last, ret_hit);
	if (found == SWAP_NONE)
		miss(s);
	else if (found == SWAP_FOUND)
		s->is_near = false;
	return found == SWAP_NONE ? swap_find(s->set, at, len, s->start + 1, last, ret_hit) : found;
}

/* Settle as much of AT as possible, after the held bytes.  FIRST is the first match, or NULL.
 * *RET_USED bytes are done. */
static int
run(struct swap_stream *s, const unsigned char *at, size_t len, bool last,
    const struct swap_hit *first, size_t *ret_used, struct err *err)
{
	struct swap_hit hit;
	enum swap_found found = SWAP_FOUND;
	size_t done = 0, keep;
	int r = 0;

	if (first != NULL)
		hit = *first;
	else
		found = find_first(s, at, len, last, &hit);
	for (; found == SWAP_FOUND; found = swap_find(s->set, at, len, done, last, &hit)) {
		r = deal_with(s, at, len, &hit, &done, err);
		if (r < 0)
			return r;
	}
	keep = len;
	/* The digit before the base64 may share its bits. */
	if (found == SWAP_MORE)
		keep = hit.start - (s->set->coded && hit.start > done);
	else if (s->set->coded && !last && len > done && s->set->before[at[len - 1]])
		keep = len - 1;
	if (!last)
		keep = steady(s, len, done, keep);
	r = pass(s, at, done, keep);
	if (found == SWAP_MORE)
		save(s, &hit, keep);
	*ret_used = keep;
	return r;
}

static int
hold(struct swap_stream *s, const unsigned char *data, size_t len, struct err *err)
{
	size_t want = s->n_held + len, cap = s->cap < 64 ? 64 : s->cap;
	unsigned char *more;

	if (len == 0)
		return 0;
	while (cap < want)
		cap *= 2;
	if (cap > s->cap) {
		/* realloc() would leave a copy behind. */
		more = malloc(cap);
		if (more == NULL)
			return err_set(err, ENOMEM, "there is no memory to look for credentials");
		if (s->n_held > 0)
			memcpy(more, s->held, s->n_held);
		if (s->held != NULL)
			explicit_bzero(s->held, s->cap);
		free(s->held);
		s->held = more;
		s->cap = cap;
	}
	memcpy(s->held + s->n_held, data, len);
	s->n_held = want;
	return 0;
}

static void
used_up(struct swap_stream *s, size_t used)
{
	s->before += used;
	s->gone -= used < s->gone ? used : s->gone;
}

/* Append some of DATA to the held bytes.  *RET_LEN bytes of DATA need not be given again. */
static int
join(struct swap_stream *s, const unsigned char *data, size_t len, size_t *ret_len,
     struct err *err)
{
	size_t some = s->n_held > JOINED ? s->n_held : JOINED, used = 0, left;
	int r;

	if (some > len)
		some = len;
	r = hold(s, data, some, err);
	if (r == 0)
		r = run(s, s->held, s->n_held, false, NULL, &used, err);
	if (r < 0)
		return r;
	left = s->n_held - used;
	used_up(s, used);
	if (left <= some) {
		/* The rest is in DATA, and need not be copied. */
		s->n_held = 0;
		*ret_len = some - left;
		return 0;
	}
	memmove(s->held, s->held + used, left);
	s->n_held = left;
	*ret_len = some;
	return 0;
}

int
swap_feed(struct swap_stream *s, const void *data, size_t len, struct err *err)
{
	const unsigned char *at = data;
	size_t used = 0;
	int r = 0;

	while (len > 0 && s->n_held > 0 && r == 0) {
		r = join(s, at, len, &used, err);
		if (r == 0) {
			at += used;
			len -= used;
		}
	}
	if (r == 0 && len > 0) {
		r = run(s, at, len, false, NULL, &used, err);
		if (r < 0)
			return r;
		used_up(s, used);
		r = hold(s, at + used, len - used, err);
	}
	look_at_held(s);
	return r;
}

int
swap_whole(struct swap_stream *s, const void *data, size_t len, const struct swap_hit *first,
           struct err *err)
{
	size_t used = 0;

	return len > 0 ? run(s, data, len, true, first, &used, err) : 0;
}

int
swap_finish(struct swap_stream *s, struct err *err)
{
	size_t used = 0;
	int r = run(s, s->held, s->n_held, true, NULL, &used, err);

	used_up(s, s->n_held);
	s->n_held = s->gone = 0;
	return r;
}

int
swap_let_go(struct swap_stream *s)
{
	size_t to = s->n_held < SWAP_GONE_MAX ? s->n_held : SWAP_GONE_MAX;
	int r;

	if (s->lengths != SWAP_FIT_LENGTH || to <= s->gone || (s->steady != NULL && *s->steady))
		return 0;
	r = pass(s, s->held, s->gone, to);
	s->gone = to;
	return r;
}

void
swap_free(struct swap_stream *s)
{
	if (s->held != NULL)
		explicit_bzero(s->held, s->cap);
	free(s->held);
	s->held = NULL;
	s->cap = s->n_held = s->gone = 0;
	if (s->is_walking)
		miss(s);
	s->is_walking = false;
}

/* ---- places ---- */

enum swap_place
swap_body_place(struct http_text type)
{
	static const char form[] = "application/x-www-form-urlencoded";
	const char *end = type.len == 0 ? NULL : memchr(type.at, ';', type.len);
	size_t len = end == NULL ? type.len : (size_t)(end - type.at);

	while (len > 0 && (type.at[len - 1] == ' ' || type.at[len - 1] == '\t'))
		len--;
	if (len == sizeof(form) - 1 && strncasecmp(type.at, form, len) == 0)
		return SWAP_BODY_FORM;
	/* application/json, text/json, application/problem+json, application/x-json */
	if (len > 5 && strncasecmp(type.at + len - 4, "json", 4) == 0 &&
	    strchr("/+-", type.at[len - 5]) != NULL)
		return SWAP_BODY_JSON;
	return SWAP_BODY;
}
