/* fuzz_sigv4.c - a request that says it is signed: `authorization`, or a presigned URL.
 *
 * The first byte says with which scheme, and whether a session token is to join; the rest
 * is the request.  Where it has room for a signature, the right one is put there, so that
 * what comes behind the check is reached too.  What is refused must be left as it was; what
 * is signed must be fit to be sent on, and come back when it is signed back. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "http/h1.h"
#include "sign/sign_chunks.h"
#include "sign/sigv4.h"

#define INPUT_MAX 16384
#define TEXT(literal) { literal, sizeof(literal) - 1 }
/* With a byte that no field has: the fuzzer finds every other word. */
#define SECRET "\1placeholder"
#define REAL_SECRET "\1real"

static const struct {
	const char *name;
	struct sigv4_row row;           /* to make the right signature; as in the family */
} schemes[] = {
	{ "sigv4", { "AWS4-HMAC-SHA256", "AWS4", "aws4_request", 4, "x-amz-date",
	  "x-amz-content-sha256", "x-amz-security-token", "X-Amz-", SIGV4_HMAC, SIGV4_TWICE } },
	{ "goog4-hmac", { "GOOG4-HMAC-SHA256", "GOOG4", "goog4_request", 4, "x-goog-date",
	  "x-goog-content-sha256", NULL, "X-Goog-", SIGV4_HMAC, SIGV4_UNSIGNED_BODY } },
	{ "acs3", { "ACS3-HMAC-SHA256", "", NULL, 0, "x-acs-date", "x-acs-content-sha256",
	  "x-acs-security-token", NULL, SIGV4_HMAC, 0 } },
	{ "tc3", { "TC3-HMAC-SHA256", "TC3", "tc3_request", 3, "x-tc-timestamp",
	  "x-tc-content-sha256", "x-tc-token", NULL, SIGV4_HMAC,
	  SIGV4_RAW_QUERY | SIGV4_LOWER_VALUES } },
};

/* The right signature for HEAD, written over the one it has. */
static void
mend(const struct sigv4_row *row, const struct http_head *head, struct http_text hash)
{
	static struct sign_memory m;
	struct sigv4_query query;
	struct sigv4_claim claim;
	struct sigv4_key key;
	char text[SIGV4_TO_SIGN_MAX], hex[SIGV4_HEX_LEN], made[SIGV4_SIGNATURE_MAX];
	const struct sign_key secret = { {0}, TEXT(SECRET), {0} };
	size_t len;
	int n;

	m.used = 0;
	if (sigv4_query_read(head->path, &query, NULL) < 0 ||
	    sigv4_claim_read(row, head, &query, &m, &claim, NULL) < 0 ||
	    claim.signature.len != SIGV4_HEX_LEN ||
	    (claim.signature.at >= m.at && claim.signature.at < m.at + sizeof(m.at)))
		return;
	if (sigv4_canon_hash(&(struct sigv4_canon){ row, head, &query, claim.fields, hash,
	    claim.presigned, (row->flags & SIGV4_TWICE) == 0 || sigv4_is_s3(&claim), 0 }, hex, NULL) < 0)
		return;
	if (row->n_scope == 0)
		n = snprintf(text, sizeof(text), "%s\n%.*s", row->label, SIGV4_HEX_LEN, hex);
	else
		n = snprintf(text, sizeof(text), "%s\n%.*s\n%.*s\n%.*s", row->label, (int)claim.time.len,
		             claim.time.at, (int)claim.scope.len, claim.scope.at, SIGV4_HEX_LEN, hex);
	assert(n > 0 && (size_t)n < sizeof(text));
	if (sigv4_key_open(row, &secret, claim.scope, &key, NULL) < 0)
		return;
	if (sigv4_key_sign(&key, text, (size_t)n, made, &len, NULL) == 0)
		memcpy((char *)(uintptr_t)claim.signature.at, made, SIGV4_HEX_LEN);
	sigv4_key_close(&key);
}

static struct http_text
param_value(const struct http_head *head, const char *name)
{
	const char *at = memmem(head->path.at, head->path.len, name, strlen(name)), *end;

	if (at == NULL)
		return (struct http_text){ "", 0 };
	at += strlen(name);
	end = memchr(at, '&', (size_t)(head->path.at + head->path.len - at));
	return (struct http_text){ at, (size_t)((end == NULL ? head->path.at + head->path.len : end) - at) };
}

static bool
same_head(const struct http_head *a, const struct http_head *b)
{
	OWN(buf_free) struct buf x, y;

	buf_init(&x, 1 << 20);
	buf_init(&y, 1 << 20);
	http_head_encode(&x, a);
	http_head_encode(&y, b);
	return x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
}

static void
check(const struct sign_scheme *scheme, const struct sigv4_row *row, struct http_head *head,
      bool token)
{
	static struct sign_memory m[3];
	static const struct sign_body body = { "abc", 3 };
	OWN(sign_chunks_freep) struct sign_chunks *chunks = NULL, *back = NULL, *again = NULL;
	struct sign_key from = { {0}, TEXT(SECRET), {0} };
	struct sign_key to = { TEXT("realid"), TEXT(REAL_SECRET), {0} };
	struct http_head before;
	enum sign_next next = SIGN_DONE;
	struct err err = {0};
	int r;

	if (!scheme->find(head, &from.id))
		return;
	if (row->token != NULL)
		from.token = http_head_get(head, row->token);
	if (row->query != NULL && from.token.len == 0)
		from.token = param_value(head, "X-Amz-Security-Token=");
	if (token && row->token != NULL)
		to.token = (struct http_text)TEXT("real/token");
	mend(row, head, row->hash != NULL && http_head_get(head, row->hash).len > 0 ?
	     http_head_get(head, row->hash) : (struct http_text)TEXT("UNSIGNED-PAYLOAD"));
	head->written = (struct http_text){ "", 0 };
	before = *head;
	m[0].used = m[1].used = m[2].used = 0;
	r = scheme->sign(NULL, &from, &to, NULL, head, NULL, &m[0], &next, &chunks, &err);
	if (r == 0 && next == SIGN_WANTS_BODY) {
		assert(same_head(head, &before) && chunks == NULL);
		r = scheme->sign(NULL, &from, &to, NULL, head, &body, &m[0], &next, &chunks, &err);
		assert(r < 0 || next != SIGN_WANTS_BODY);
	}
	assert((r == 0 && next == SIGN_WANTS_CHUNKS) == (chunks != NULL));
	if (r < 0) {
		assert(same_head(head, &before) && err.text[0] != '\0');
		assert(strchr(err.text, 1) == NULL);
		return;
	}
	assert(http_head_check(head, NULL) == 0);
	r = scheme->sign(NULL, &to, &from, NULL, head, &body, &m[1], &next, &back, &err);
	assert(r == 0);
	before = *head;
	r = scheme->sign(NULL, &from, &from, NULL, head, &body, &m[2], &next, &again, &err);
	assert(r == 0 && same_head(head, &before));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct h1_reader *r;
	struct http_text piece;
	struct http_head head;
	size_t used, k;
	OWN(freep) char *copy = NULL;

	if (size < 1 || size > INPUT_MAX)
		return 0;
	k = (data[0] & 15) % ARRAY_LEN(schemes);
	copy = malloc(size);
	r = malloc(sizeof(*r));
	assert(copy != NULL && r != NULL);
	memcpy(copy, data + 1, size - 1);
	h1_reader_init(r, H1_REQUESTS);
	if (h1_read(r, copy, size - 1, &used, &piece, NULL) == H1_HEAD) {
		head = r->head;
		head.scheme = HTTP_TLS;
		if (head.port == 0)
			head.port = 443;
		if (http_head_check(&head, NULL) == 0)
			check(sign_scheme_find(schemes[k].name), &schemes[k].row, &head,
			      (data[0] & 16) != 0);
	}
	h1_reader_free(r);
	free(r);
	return 0;
}
