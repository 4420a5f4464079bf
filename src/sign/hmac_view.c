/* hmac_view.c - see hmac_view.h. */
#include "sign/hmac_view.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

static bool
same_nocase(struct http_text a, struct http_text b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if ((a.at[i] >= 'A' && a.at[i] <= 'Z' ? a.at[i] | 0x20 : a.at[i]) !=
		    (b.at[i] >= 'A' && b.at[i] <= 'Z' ? b.at[i] | 0x20 : b.at[i]))
			return false;
	return true;
}

static bool
param_is(struct http_text name, struct http_text want)
{
	char text[256];

	if (want.len >= sizeof(text))
		return false;
	memcpy(text, want.at, want.len);
	text[want.len] = '\0';
	return scheme_param_is(name, text);
}

bool
hmac_next_member(struct http_text *rest, struct scheme_param *ret)
{
	const char *comma, *equals;

	while (rest->len > 0 && (*rest->at == ' ' || *rest->at == ','))
		rest->at++, rest->len--;
	if (rest->len == 0)
		return false;
	comma = memchr(rest->at, ',', rest->len);
	ret->whole = (struct http_text){ rest->at,
		comma == NULL ? rest->len : (size_t)(comma - rest->at) };
	rest->at += ret->whole.len;
	rest->len -= ret->whole.len;
	equals = memchr(ret->whole.at, '=', ret->whole.len);
	ret->name = ret->whole;
	ret->value = (struct http_text){ ret->whole.at + ret->whole.len, 0 };
	if (equals != NULL) {
		ret->name.len = (size_t)(equals - ret->whole.at);
		ret->value = (struct http_text){ equals + 1, ret->whole.len - ret->name.len - 1 };
	}
	return true;
}

static int
find_header(const struct http_head *head, struct http_text name, struct hmac_spot *ret)
{
	int found = 0;

	for (size_t i = 0; i < head->n_fields; i++) {
		if (!same_nocase(head->fields[i].name, name))
			continue;
		*ret = (struct hmac_spot){ (int)i, false, head->fields[i].value };
		found++;
	}
	return found;
}

static int
find_in(struct http_text text, struct http_text name, struct hmac_spot *ret)
{
	struct scheme_param param;
	int found = 0;

	while (scheme_param_next(&text, &param)) {
		if (param_is(param.name, name)) {
			ret->raw = param.value;
			found++;
		}
	}
	return found;
}

/* A member of a header "a=1,b=2"; if there are several headers of one name, the first. */
static int
find_member(const struct http_head *head, const struct hmac_place *place, struct hmac_spot *ret)
{
	struct scheme_param member;
	struct http_text rest;
	struct hmac_spot header;
	int found = find_header(head, place->name, &header);

	if (found != 1)
		return found;
	for (rest = header.raw; hmac_next_member(&rest, &member);) {
		if (scheme_same(member.name, place->member)) {
			*ret = (struct hmac_spot){ header.field, false, member.value };
			return 1;
		}
	}
	return 0;
}

int
hmac_find_place(const struct hmac_view *v, const struct hmac_place *place,
                struct hmac_spot *ret_spot)
{
	int found = 0;

	*ret_spot = (struct hmac_spot){ .field = -1 };
	switch (place->kind) {
	case HMAC_NOWHERE:
		break;
	case HMAC_HEADER:
		return find_header(&v->head, place->name, ret_spot);
	case HMAC_MEMBER:
		return find_member(&v->head, place, ret_spot);
	case HMAC_PARAM:
		found = find_in(scheme_query_of(&v->head), place->name, ret_spot);
		if (found > 0)
			return found;
		__attribute__((fallthrough));
	case HMAC_BODY:
		ret_spot->in_body = true;
		if (scheme_is_form(&v->head))
			found = find_in(v->body, place->name, ret_spot);
		break;
	}
	return found;
}

int
hmac_get_place(const struct hmac_view *v, const struct hmac_place *place, const char *what,
          struct hmac_spot *ret_spot, struct err *err)
{
	int found = hmac_find_place(v, place, ret_spot);

	if (found == 1)
		return 0;
	return err_set(err, found == 0 ? ENOENT : EINVAL, "the request has %s %s where '%.*s' "
	               "should be", found == 0 ? "no" : "more than one", what,
	               (int)place->name.len, place->name.at);
}

int
hmac_check_place(const struct hmac_view *v, const struct hmac_place *place, const char *what,
            struct http_text want, struct err *err)
{
	struct hmac_spot spot;
	int r;

	if (place->kind == HMAC_NOWHERE || want.len == 0)
		return 0;
	r = hmac_get_place(v, place, what, &spot, err);
	if (r < 0)
		return r;
	if (!scheme_same_secret(spot.raw.at, spot.raw.len, want.at, want.len))
		return err_set(err, EKEYREJECTED, "the %s in '%.*s' is not the placeholder's", what,
		               (int)place->name.len, place->name.at);
	return 0;
}

static bool
is_kept_member(const struct sign_hmac_one *one, struct http_text name)
{
	const struct hmac_place *const places[] = { &one->id, &one->token, &one->timestamp,
	                                            &one->nonce };

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (places[i]->kind == HMAC_MEMBER && scheme_same(places[i]->name, one->at.name) &&
		    scheme_same(places[i]->member, name))
			return true;
	return false;
}

/* Other members may be signatures too, made with a key that the receiver must not see. */
static void
put_members(struct buf *b, const struct sign_hmac_one *one, const struct hmac_place *place,
            struct http_text list, struct http_text value)
{
	struct scheme_param member;
	bool done = false;

	while (hmac_next_member(&list, &member)) {
		bool ours = scheme_same(member.name, place->member);

		if ((ours && done) || (!ours && !is_kept_member(one, member.name) &&
		                       !scheme_same(member.name, one->at.member)))
			continue;
		if (b->len > 0)
			buf_put_text(b, ",");
		scheme_put(b, ours ? member.name : member.whole);
		if (ours) {
			buf_put_text(b, "=");
			scheme_put(b, value);
			done = true;
		}
	}
}

int
hmac_put_place(struct hmac_view *v, const struct sign_hmac_one *one, const struct hmac_place *place,
          struct http_text value, struct sign_memory *m, struct err *err)
{
	OWN(buf_free) struct buf b = {0}, coded = {0};
	struct scheme_cut cut;
	struct http_text *target, kept;
	struct hmac_spot spot;
	int r = hmac_get_place(v, place, "value", &spot, err);

	if (r < 0)
		return r;
	buf_init(&b, SIGN_MEMORY_MAX);
	buf_init(&coded, HTTP_HEAD_MAX);
	if (place->kind == HMAC_HEADER || place->kind == HMAC_MEMBER) {
		target = &v->head.fields[spot.field].value;
		if (place->kind == HMAC_HEADER)
			scheme_put(&b, value);
		else
			put_members(&b, one, place, *target, value);
	} else {
		target = spot.in_body ? &v->body : &v->head.path;
		scheme_put_encoded(&coded, value);
		cut = (struct scheme_cut){ spot.raw, scheme_text_of(&coded) };
		scheme_splice(&b, *target, &cut, 1);
	}
	if (buf_failed(&b) || buf_failed(&coded))
		return err_set(err, EFBIG, "the request is too long to be signed");
	r = scheme_keep(m, scheme_text_of(&b), &kept, err);
	if (r < 0)
		return r;
	*target = kept;
	v->new_body = v->new_body || spot.in_body;
	return 0;
}
