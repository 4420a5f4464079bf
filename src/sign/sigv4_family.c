/* sigv4_family.c - the members of the family, each a row. */
#include "sign/sigv4.h"

#include "base/own.h"

static const struct sigv4_row sigv4_row = {
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

/* The table of schemes has no room for a row: a function for each knows its own. */
#define SCHEME(var, name_) \
static bool \
var##_find(const struct http_head *head, struct http_text *ret_id) \
{ \
	return sigv4_claim_find(&var##_row, head, ret_id); \
} \
static int \
var##_sign(const void *with, const struct sign_key *from, const struct sign_key *to, \
           struct http_head *head, const struct sign_body *body, struct sign_memory *m, \
           enum sign_next *ret_next, struct sign_chunks **ret_chunks, struct err *err) \
{ \
	(void)with; \
	return sigv4_sign_row(&var##_row, from, to, head, body, m, ret_next, ret_chunks, err); \
} \
const struct sign_scheme var##_scheme = { .name = name_, .find = var##_find, \
	.sign = var##_sign }

/* Whoever has a pair of id and secret may sign in each of these ways with it, and the request says
 * in which. */
static const struct sigv4_row *const family[] = {
	&sigv4_row, &sigv4a_row, &goog4_hmac_row, &acs3_row, &tc3_row,
};

static const struct sigv4_row *
find_row(const struct http_head *head, struct http_text *ret_id)
{
	for (size_t i = 0; i < ARRAY_LEN(family); i++)
		if (sigv4_claim_find(family[i], head, ret_id))
			return family[i];
	return NULL;
}

static bool
family_find(const struct http_head *head, struct http_text *ret_id)
{
	return find_row(head, ret_id) != NULL;
}

static int
family_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
            struct http_head *head, const struct sign_body *body, struct sign_memory *m,
            enum sign_next *ret_next, struct sign_chunks **ret_chunks, struct err *err)
{
	struct http_text id;
	const struct sigv4_row *row = find_row(head, &id);

	(void)with;
	return sigv4_sign_row(row != NULL ? row : &sigv4_row, from, to, head, body, m, ret_next,
	                      ret_chunks, err);
}

const struct sign_scheme sigv4_scheme = { "sigv4", family_find, family_sign, false };
SCHEME(sigv4a, "sigv4a");
SCHEME(goog4_hmac, "goog4-hmac");
SCHEME(goog4_rsa, "goog4-rsa");
SCHEME(acs3, "acs3");
SCHEME(tc3, "tc3");
