/* sigv4_family.c - the schemes of the family, each a row; and the family as one scheme. */
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/sigv4.h"

const struct sigv4_row sigv4_row = {
	.label = "AWS4-HMAC-SHA256", .prefix = "AWS4", .terminator = "aws4_request", .n_scope = 4,
	.date = "x-amz-date", .hash = "x-amz-content-sha256", .token = "x-amz-security-token",
	.query = "X-Amz-", .crypt = SIGV4_HMAC, .flags = SIGV4_TWICE | SIGV4_CHUNKS,
};
static const struct sigv4_row sigv4a_row = {
	.label = "AWS4-ECDSA-P256-SHA256", .prefix = "AWS4A", .terminator = "aws4_request",
	.n_scope = 3, .date = "x-amz-date", .hash = "x-amz-content-sha256",
	.token = "x-amz-security-token", .query = "X-Amz-", .crypt = SIGV4_P256,
	.flags = SIGV4_TWICE | SIGV4_REGION_SET,
};
static const struct sigv4_row goog4_hmac_row = {
	.label = "GOOG4-HMAC-SHA256", .prefix = "GOOG4", .terminator = "goog4_request",
	.n_scope = 4, .date = "x-goog-date", .hash = "x-goog-content-sha256", .query = "X-Goog-",
	.crypt = SIGV4_HMAC, .flags = SIGV4_UNSIGNED_BODY,
};
static const struct sigv4_row goog4_rsa_row = {
	.label = "GOOG4-RSA-SHA256", .prefix = "", .terminator = "goog4_request", .n_scope = 4,
	.date = "x-goog-date", .hash = "x-goog-content-sha256", .query = "X-Goog-",
	.crypt = SIGV4_RSA, .flags = SIGV4_UNSIGNED_BODY,
};
static const struct sigv4_row acs3_row = {
	.label = "ACS3-HMAC-SHA256", .prefix = "", .date = "x-acs-date",
	.hash = "x-acs-content-sha256", .token = "x-acs-security-token", .crypt = SIGV4_HMAC,
};
static const struct sigv4_row tc3_row = {
	.label = "TC3-HMAC-SHA256", .prefix = "TC3", .terminator = "tc3_request", .n_scope = 3,
	.date = "x-tc-timestamp", .hash = "x-tc-content-sha256", .token = "x-tc-token",
	.crypt = SIGV4_HMAC, .flags = SIGV4_RAW_QUERY | SIGV4_LOWER_VALUES | SIGV4_TOKEN_UNSIGNED |
		SIGV4_HASHED_WORD,
};

/* struct sign_scheme has no member for a row, so each row has functions of its own. */
#define SCHEME(var, name_) \
static bool \
var##_find(const struct http_head *head, struct http_text *ret_id) \
{ \
	return sigv4_claim_find(&var##_row, head, ret_id); \
} \
static int \
var##_sign(const void *with, const struct sign_key *from, const struct sign_key *to, \
           const struct sign_was *was, struct http_head *head, const struct sign_body *body, \
           struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks, \
           struct err *err) \
{ \
	(void)with; \
	return sigv4_sign_row(&var##_row, from, to, was, head, body, m, ret_next, ret_chunks, err); \
} \
const struct sign_scheme var##_scheme = { .name = (name_), .find = var##_find, \
	.sign = var##_sign }

SCHEME(sigv4a, "sigv4a");
SCHEME(goog4_hmac, "goog4-hmac");
SCHEME(goog4_rsa, "goog4-rsa");
SCHEME(acs3, "acs3");
SCHEME(tc3, "tc3");

/* ---- `sigv4`: a pair of id and secret may sign in each of these ways ---- */

static const struct sigv4_row *
row_of(const struct http_head *head, struct http_text *ret_id)
{
	static const struct sigv4_row *const rows[] = { &sigv4_row, &sigv4a_row, &goog4_hmac_row,
		&goog4_rsa_row, &acs3_row, &tc3_row };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (sigv4_claim_find(rows[i], head, ret_id))
			return rows[i];
	return NULL;
}

/* Word N of SCOPE, NUL-terminated; "" if it does not exist. */
static void
scope_word(struct http_text scope, size_t n, char ret_word[SIGV4_SCOPE_MAX])
{
	const char *at = scope.at, *end = scope.at + scope.len, *next;

	ret_word[0] = '\0';
	for (; at != NULL && at <= end; at = next + 1, n--) {
		next = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
		next = next != NULL ? next : end;
		if (n == 0 && (size_t)(next - at) < SIGV4_SCOPE_MAX) {
			memcpy(ret_word, at, (size_t)(next - at));
			ret_word[next - at] = '\0';
		}
		if (n == 0 || next == end)
			return;
	}
}

static int
check_word(const char *what, const char *want, const char *is, struct err *err)
{
	if (want == NULL || (*is != '\0' && fnmatch(want, is, 0) == 0))
		return 0;
	return err_set(err, EPERM, "the request is signed for the %s '%.64s', and the secret is for '%.64s' "
	               "only", what, is, want);
}

/* A scope is DATE/REGION/SERVICE/TERMINATOR, or has no region. */
static int
check_scope(const struct sigv4_row *row, const struct sigv4_options *options,
            const struct http_head *head, struct sign_memory *m, struct err *err)
{
	char region[SIGV4_SCOPE_MAX] = "", service[SIGV4_SCOPE_MAX] = "";
	struct sigv4_claim claim = {0};
	struct sigv4_query query;
	size_t used = m->used;
	int r;

	if (options == NULL || (options->service == NULL && options->region == NULL))
		return 0;
	r = sigv4_query_read(head->path, &query, err);
	if (r == 0)
		r = sigv4_claim_read(row, head, &query, m, &claim, err);
	if (r < 0)
		return r;
	if (row->n_scope == 4)
		scope_word(claim.scope, 1, region);
	if (row->n_scope >= 3)
		scope_word(claim.scope, row->n_scope - 2, service);
	m->used = used;
	r = check_word("region", options->region, region, err);
	return r < 0 ? r : check_word("service", options->service, service, err);
}

static bool
family_find(const struct http_head *head, struct http_text *ret_id)
{
	return row_of(head, ret_id) != NULL;
}

static int
family_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
            const struct sign_was *was, struct http_head *head, const struct sign_body *body,
            struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
            struct err *err)
{
	struct http_text id;
	const struct sigv4_row *row = row_of(head, &id);
	int r = row != NULL ? check_scope(row, with, head, m, err) :
	                      err_set(err, EINVAL, "the request is not signed");

	return r < 0 ? r : sigv4_sign_row(row, from, to, was, head, body, m, ret_next, ret_chunks,
	                                  err);
}

const struct sign_scheme sigv4_scheme = {
	.name = "sigv4", .find = family_find, .sign = family_sign,
};
