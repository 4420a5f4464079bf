/* sigv4_read.c - reads a request's claim about its signature: key, scope, fields. */
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/sigv4.h"

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

char *
sigv4_room(struct sign_memory *m, size_t len, struct err *err)
{
	char *at = m->at + m->used;

	if (len > sizeof(m->at) - m->used) {
		err_set(err, EMSGSIZE, "the request is too large to be signed");
		return NULL;
	}
	m->used += len;
	return at;
}

int
sigv4_decode(struct sign_memory *m, struct http_text text, struct http_text *ret_text,
             struct err *err)
{
	size_t n = 0;
	char *out;

	if (text.len == 0 || memchr(text.at, '%', text.len) == NULL) {
		*ret_text = text;
		return 0;
	}
	out = sigv4_room(m, text.len, err);
	if (out == NULL)
		return -EMSGSIZE;
	for (size_t i = 0; i < text.len; i++) {
		int byte = codec_percent_byte(text.at + i, text.len - i);

		out[n++] = byte >= 0 ? (char)byte : text.at[i];
		i += byte >= 0 ? 2 : 0;
	}
	*ret_text = (struct http_text){ out, n };
	return 0;
}

int
sigv4_field_find(const struct http_head *head, const char *name, int *ret_at, struct err *err)
{
	int at = -1;

	for (size_t i = 0; i < head->n_fields; i++) {
		if (!http_text_is(head->fields[i].name, name))
			continue;
		if (at >= 0)
			return err_set(err, EBADMSG, "the signed request has the field '%s' twice", name);
		at = (int)i;
	}
	*ret_at = at;
	return 0;
}

/* ---- the query -------------------------------------------------------------------- */

int
sigv4_query_read(struct http_text path, struct sigv4_query *ret_query, struct err *err)
{
	const char *end = path.at + path.len, *at, *next, *equals;

	ret_query->n = 0;
	at = path.len == 0 ? NULL : memchr(path.at, '?', path.len);
	if (at == NULL)
		return 0;
	for (at++; at < end; at = next + 1) {
		next = memchr(at, '&', (size_t)(end - at));
		if (next == NULL)
			next = end;
		if (next == at)
			continue;
		if (ret_query->n == SIGV4_PARAMS_MAX)
			return err_set(err, EMSGSIZE, "the signed request's query has more than %d parameters",
			               SIGV4_PARAMS_MAX);
		equals = memchr(at, '=', (size_t)(next - at));
		if (equals == NULL)
			equals = next;
		ret_query->params[ret_query->n++] = (struct sigv4_param){
			{ at, (size_t)(equals - at) },
			{ equals < next ? equals + 1 : next,
			  equals < next ? (size_t)(next - equals - 1) : 0 },
		};
	}
	return 0;
}

static bool
is_param(const struct sigv4_row *row, struct http_text name, const char *suffix)
{
	size_t len = strlen(row->query);

	return name.len > len && memcmp(name.at, row->query, len) == 0 &&
		http_text_is((struct http_text){ name.at + len, name.len - len }, suffix);
}

const struct sigv4_param *
sigv4_param_find(const struct sigv4_row *row, const struct sigv4_query *query,
                 const char *suffix)
{
	for (size_t i = 0; row->query != NULL && i < query->n; i++)
		if (is_param(row, query->params[i].name, suffix))
			return &query->params[i];
	return NULL;
}

/* ---- the credential ---------------------------------------------------------------- */

/* ID/DATE/REGION/SERVICE/TERMINATOR, or the parts that ROW has.  The scope is counted from the end:
 * an id may contain anything. */
static int
split_credential(const struct sigv4_row *row, struct http_text text,
                 struct sigv4_claim *claim, struct err *err)
{
	size_t at = text.len, words = 0, end = text.len, last = text.len;

	claim->id = text;
	claim->scope = claim->service = (struct http_text){ "", 0 };
	while (words < row->n_scope && at > 0) {
		if (text.at[--at] != '/')
			continue;
		if (at + 1 == last)
			break;
		if (++words == 1)
			end = at;
		if (words == 2)
			claim->service = (struct http_text){ text.at + at + 1, end - at - 1 };
		last = at;
	}
	if (words < row->n_scope || (row->n_scope > 0 && at == 0))
		return err_set(err, EBADMSG, "the signature's credential has no scope of %zu parts",
		               row->n_scope);
	if (row->n_scope > 0) {
		claim->id = (struct http_text){ text.at, at };
		claim->scope = (struct http_text){ text.at + at + 1, text.len - at - 1 };
		if (!http_text_is((struct http_text){ text.at + end + 1, text.len - end - 1 },
		                  row->terminator))
			return err_set(err, EBADMSG, "the signature's scope does not end with '%s'",
			               row->terminator);
	}
	if (claim->id.len == 0 || claim->id.len > SIGV4_ID_MAX ||
	    claim->scope.len > SIGV4_SCOPE_MAX)
		return err_set(err, EBADMSG, "the signature's credential is empty or too long");
	return 0;
}

bool
sigv4_is_s3(const struct sigv4_claim *claim)
{
	struct http_text s = claim->service;

	return http_text_is(s, "s3") || http_text_is(s, "s3express") ||
		(s.len > 3 && memcmp(s.at, "s3-", 3) == 0);
}

/* ---- in `authorization` ------------------------------------------------------------ */

/* The text after the label; false if it is another label. */
static bool
behind_label(const struct sigv4_row *row, struct http_text value, struct http_text *ret_rest)
{
	size_t len = strlen(row->label);

	if (value.len <= len || memcmp(value.at, row->label, len) != 0 || !is_blank(value.at[len]))
		return false;
	*ret_rest = (struct http_text){ value.at + len + 1, value.len - len - 1 };
	return true;
}

/* Take the next `NAME=VALUE` from REST.  False at the end; an empty name means another syntax. */
static bool
next_part(struct http_text *rest, struct sigv4_param *ret_part)
{
	const char *at = rest->at, *end = at + rest->len, *stop, *equals;

	while (at < end && (is_blank(*at) || *at == ','))
		at++;
	if (at == end)
		return false;
	stop = memchr(at, ',', (size_t)(end - at));
	if (stop == NULL)
		stop = end;
	*rest = (struct http_text){ stop, (size_t)(end - stop) };
	while (is_blank(stop[-1]))
		stop--;
	equals = memchr(at, '=', (size_t)(stop - at));
	if (equals == NULL)
		equals = at;
	ret_part->name = (struct http_text){ at, (size_t)(equals - at) };
	ret_part->value = (struct http_text){ equals + 1, (size_t)(stop - equals) - 1 };
	return true;
}

static int
read_authorization(const struct sigv4_row *row, struct http_text rest,
                   struct sigv4_claim *claim, struct err *err)
{
	struct http_text credential = {0};
	struct sigv4_param part;
	const struct {
		const char *name;
		struct http_text *to;
	} parts[] = {
		{ "Credential", &credential },
		{ "SignedHeaders", &claim->fields },
		{ "Signature", &claim->signature },
	};
	const char *comma = memchr(rest.at, ',', rest.len);

	claim->tight = comma != NULL && comma + 1 < rest.at + rest.len && !is_blank(comma[1]);
	while (next_part(&rest, &part)) {
		size_t i = 0;

		while (i < ARRAY_LEN(parts) && !http_text_is(part.name, parts[i].name))
			i++;
		if (i == ARRAY_LEN(parts) || part.value.len == 0)
			return err_set(err, EBADMSG, "the field 'authorization' has a part that %s does "
			               "not know", row->label);
		if (parts[i].to->at != NULL)
			return err_set(err, EBADMSG, "the field 'authorization' has the part '%s' twice",
			               parts[i].name);
		*parts[i].to = part.value;
	}
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (parts[i].to->at == NULL)
			return err_set(err, EBADMSG, "the field 'authorization' has no part '%s'",
			               parts[i].name);
	return split_credential(row, credential, claim, err);
}

/* ---- the time ------------------------------------------------------------------------ */

/* YYYYMMDDTHHMMSSZ */
static bool
is_iso_basic(struct http_text text)
{
	if (text.len != 16 || text.at[8] != 'T' || text.at[15] != 'Z')
		return false;
	for (size_t i = 0; i < 15; i++)
		if (i != 8 && (text.at[i] < '0' || text.at[i] > '9'))
			return false;
	return true;
}

/* Convert "Fri, 24 May 2013 00:00:00 GMT" (RFC 9110, 5.6.7; some clients write "-0000" for GMT)
 * into the signed form. */
static int
time_of_date(struct http_text date, struct sign_memory *m, struct http_text *ret_time,
             struct err *err)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	const char *d = date.at, *month = NULL;
	char *out;

	if (date.len >= 29 && memcmp(d + 3, ", ", 2) == 0)
		for (const char *at = months; *at != '\0' && month == NULL; at += 3)
			if (memcmp(at, d + 8, 3) == 0)
				month = at;
	if (month == NULL)
		return err_set(err, EBADMSG, "the signed request's date cannot be read");
	out = sigv4_room(m, 16, err);
	if (out == NULL)
		return -EMSGSIZE;
	memcpy(out, d + 12, 4);
	out[4] = (char)('0' + ((month - months) / 3 + 1) / 10);
	out[5] = (char)('0' + ((month - months) / 3 + 1) % 10);
	memcpy(out + 6, d + 5, 2);
	out[8] = 'T';
	memcpy(out + 9, d + 17, 2);
	memcpy(out + 11, d + 20, 2);
	memcpy(out + 13, d + 23, 2);
	out[15] = 'Z';
	*ret_time = (struct http_text){ out, 16 };
	return is_iso_basic(*ret_time) ? 0 :
		err_set(err, EBADMSG, "the signed request's date cannot be read");
}

static int
read_time(const struct sigv4_row *row, const struct http_head *head, struct sign_memory *m,
          struct sigv4_claim *claim, struct err *err)
{
	int at = -1, r = 0;

	if (!claim->presigned) {
		if (sigv4_field_find(head, row->date, &at, err) < 0)
			return -EBADMSG;
		if (at >= 0)
			claim->time = head->fields[at].value;
		else
			claim->time = http_head_get(head, "date");
	}
	if (row->terminator == NULL)
		return 0;               /* only among the signed fields */
	if (claim->time.len == 0)
		return err_set(err, EBADMSG, "the signed request has no field '%s'", row->date);
	if (claim->time.len > SIGV4_SCOPE_MAX / 4)
		return err_set(err, EBADMSG, "the signed request's date cannot be read");
	if (row->query == NULL)
		return 0;               /* seconds; the service compares them with the scope */
	if (!is_iso_basic(claim->time))
		r = time_of_date(claim->time, m, &claim->time, err);
	if (r == 0 && (claim->scope.len < 9 || claim->scope.at[8] != '/' ||
	               memcmp(claim->scope.at, claim->time.at, 8) != 0))
		return err_set(err, EBADMSG, "the signature's scope is of another day than the request");
	return r;
}

/* ---- in the query -------------------------------------------------------------------- */

static int
read_presigned(const struct sigv4_row *row, const struct sigv4_query *query,
               struct sign_memory *m, struct sigv4_claim *claim, struct err *err)
{
	struct http_text credential = {0}, algorithm = {0}, expires = {0}, token = {0};
	const struct {
		const char *suffix;
		bool needed;
		struct http_text *to;
	} parts[] = {
		{ "Algorithm", true, &algorithm },
		{ "Credential", true, &credential },
		{ "Date", true, &claim->time },
		{ "Expires", false, &expires },
		{ "SignedHeaders", true, &claim->fields },
		{ "Signature", true, &claim->signature },
		{ "Security-Token", false, &token },
	};
	int r = 0;

	claim->presigned = true;
	for (size_t k = 0; k < ARRAY_LEN(parts); k++) {
		const struct sigv4_param *found = NULL;

		for (size_t i = 0; i < query->n; i++) {
			if (!is_param(row, query->params[i].name, parts[k].suffix))
				continue;
			if (found != NULL)
				return err_set(err, EBADMSG, "the presigned URL has the parameter '%s%s' twice",
				               row->query, parts[k].suffix);
			found = &query->params[i];
		}
		if (found == NULL && parts[k].needed)
			return err_set(err, EBADMSG, "the presigned URL has no parameter '%s%s'",
			               row->query, parts[k].suffix);
		if (found != NULL)
			r = sigv4_decode(m, found->value, parts[k].to, err);
		if (r < 0)
			return r;
	}
	return split_credential(row, credential, claim, err);
}

/* Whether the parameters of a URL have a signature of ROW. */
static bool
is_presigned(const struct sigv4_row *row, const struct sigv4_query *query)
{
	const struct sigv4_param *p = sigv4_param_find(row, query, "Algorithm");

	return p != NULL && http_text_is(p->value, row->label);
}

bool
sigv4_claim_find(const struct sigv4_row *row, const struct http_head *head,
                 struct http_text *ret_id)
{
	struct sigv4_claim claim = {0};
	struct sigv4_query query;
	struct http_text rest;
	const struct sigv4_param *p;

	*ret_id = (struct http_text){ "", 0 };
	if (behind_label(row, http_head_get(head, "authorization"), &rest)) {
		if (read_authorization(row, rest, &claim, NULL) == 0)
			*ret_id = claim.id;
		return true;
	}
	if (row->query == NULL || sigv4_query_read(head->path, &query, NULL) < 0 ||
	    !is_presigned(row, &query))
		return false;
	p = sigv4_param_find(row, &query, "Credential");
	if (p != NULL) {
		const char *end = memmem(p->value.at, p->value.len, "%2F", 3);

		if (end == NULL)
			end = memchr(p->value.at, '/', p->value.len);
		if (end != NULL)
			*ret_id = (struct http_text){ p->value.at, (size_t)(end - p->value.at) };
	}
	return true;
}

int
sigv4_claim_read(const struct sigv4_row *row, const struct http_head *head,
                 const struct sigv4_query *query, struct sign_memory *m,
                 struct sigv4_claim *ret_claim, struct err *err)
{
	bool presigned = row->query != NULL && is_presigned(row, query);
	struct http_text rest;
	int at = -1, r;

	memset(ret_claim, 0, sizeof(*ret_claim));
	if (sigv4_field_find(head, "authorization", &at, err) < 0)
		return -EBADMSG;
	if (at >= 0 && behind_label(row, head->fields[at].value, &rest)) {
		if (presigned)
			return err_set(err, EBADMSG, "the request is signed twice: in its query and in "
			               "'authorization'");
		r = read_authorization(row, rest, ret_claim, err);
	} else if (presigned) {
		if (at >= 0)
			return err_set(err, EBADMSG, "the presigned request has a field 'authorization'");
		r = read_presigned(row, query, m, ret_claim, err);
	} else {
		return err_set(err, EBADMSG, "the request has no signature of %s", row->label);
	}
	if (r == 0)
		r = read_time(row, head, m, ret_claim, err);
	if (r == 0 && (ret_claim->fields.len == 0 || ret_claim->signature.len == 0 ||
	               ret_claim->signature.len > SIGV4_SIGNATURE_MAX))
		return err_set(err, EBADMSG, "the signature or its list of fields is empty or too long");
	return r;
}
