/* sign_loop.c - times checking a request's signature and signing it anew; prints what and
 * nanoseconds, and for signed chunks those of 64 KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/sign_chunks.h"
#include "sign/sigv4.h"

#define ROUNDS 2000
#define CHUNK 65536
#define TIME "20260102T030405Z"
#define SIGNATURE "0000000000000000000000000000000000000000000000000000000000000000"
#define TEXT(literal) { literal, sizeof(literal) - 1 }

static const struct sign_key mine = { TEXT("AKIAPLACEHOLDER12345"),
	TEXT("placeholder/secret+0123456789ABCDEFGHIJK"), {0} };
static const struct sign_key real = { TEXT("AKIAREALREALREALREAL"),
	TEXT("real/secret+0123456789ABCDEFGHIJKLMNOPQR"), {0} };

#define SCOPE(service) "AKIAPLACEHOLDER12345/20260102/eu-west-1/" service "/aws4_request"
#define AUTH(label, credential) label " Credential=" credential \
	", SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-region-set, Signature=" SIGNATURE

static const struct {
	const char *name, *scheme, *path, *authorization;
} cases[] = {
	{ "S3 in fields", "sigv4", "/photos/2026/01/a%20b.jpg?partNumber=7&uploadId=VXBsb2FkIElE",
	  AUTH("AWS4-HMAC-SHA256", SCOPE("s3")) },
	{ "another service in fields", "sigv4", "/v1/items/17", AUTH("AWS4-HMAC-SHA256", SCOPE("es")) },
	{ "S3 presigned", "sigv4", "/photos/a.jpg?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential="
	  "AKIAPLACEHOLDER12345%2F20260102%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date=" TIME
	  "&X-Amz-Expires=3600&X-Amz-SignedHeaders=host&X-Amz-Signature=" SIGNATURE, NULL },
	{ "SigV4A", "sigv4a", "/v1/items/17", AUTH("AWS4-ECDSA-P256-SHA256",
	  "AKIAPLACEHOLDER12345/20260102/s3/aws4_request") },
};

static double
seconds(void)
{
	struct timespec now;

	/* Nothing is waited for: what others do on the machine is not counted. */
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void
give_up(const char *name, const char *why)
{
	fprintf(stderr, "sign_loop: %s: %s\n", name, why);
	exit(EXIT_FAILURE);
}

static void
add_field(struct http_head *head, const char *name, const char *value)
{
	head->fields[head->n_fields++] = (struct http_field){ { name, strlen(name) },
		{ value, strlen(value) } };
}

static void
make_head(size_t i, struct http_head *head)
{
	*head = (struct http_head){ .method = TEXT("GET"),
		.host = TEXT("bucket.s3.eu-west-1.amazonaws.com"), .port = 443, .scheme = HTTP_TLS,
		.path = { cases[i].path, strlen(cases[i].path) } };
	add_field(head, "accept", "*/*");
	add_field(head, "user-agent", "aws-sdk/1.2.3 os/linux lang/c");
	add_field(head, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
	add_field(head, "x-amz-date", TIME);
	add_field(head, "x-amz-region-set", "*");
	if (cases[i].authorization != NULL)
		add_field(head, "authorization", cases[i].authorization);
}

/* The right signature, made by hand, into ROOM. */
static void
sign_first(size_t i, struct http_head *head, char room[4096])
{
	static const struct sigv4_row rows[] = {
		{ "AWS4-HMAC-SHA256", "AWS4", "aws4_request", 4, "x-amz-date", "x-amz-content-sha256",
		  "x-amz-security-token", "X-Amz-", SIGV4_HMAC, SIGV4_TWICE },
		{ "AWS4-ECDSA-P256-SHA256", "AWS4A", "aws4_request", 3, "x-amz-date",
		  "x-amz-content-sha256", "x-amz-security-token", "X-Amz-", SIGV4_P256, SIGV4_TWICE },
	};
	const struct sigv4_row *row = &rows[strcmp(cases[i].scheme, "sigv4a") == 0];
	static struct sign_memory m;
	char text[SIGV4_TO_SIGN_MAX], hex[SIGV4_HEX_LEN], made[SIGV4_SIGNATURE_MAX];
	struct http_text *where = cases[i].authorization == NULL ? &head->path :
		&head->fields[head->n_fields - 1].value;
	struct sigv4_query query;
	struct sigv4_claim claim;
	struct sigv4_key key;
	size_t len;
	int n;

	m.used = 0;
	if (sigv4_query_read(head->path, &query, NULL) < 0 ||
	    sigv4_claim_read(row, head, &query, &m, &claim, NULL) < 0 ||
	    sigv4_canon_hash(&(struct sigv4_canon){ row, head, &query, claim.fields,
	        TEXT("UNSIGNED-PAYLOAD"), claim.presigned, sigv4_is_s3(&claim), 0 }, hex, NULL) < 0 ||
	    sigv4_key_open(row, &mine, claim.scope, &key, NULL) < 0)
		give_up(cases[i].name, "cannot be signed");
	n = snprintf(text, sizeof(text), "%s\n" TIME "\n%.*s\n%.*s", row->label,
	             (int)claim.scope.len, claim.scope.at, SIGV4_HEX_LEN, hex);
	if (sigv4_key_sign(&key, text, (size_t)n, made, &len, NULL) < 0)
		give_up(cases[i].name, "cannot be signed");
	sigv4_key_close(&key);
	n = snprintf(room, 4096, "%.*s%.*s", (int)(where->len - strlen(SIGNATURE)), where->at,
	             (int)len, made);
	*where = (struct http_text){ room, (size_t)n };
}

static double
measure(size_t i)
{
	const struct sign_scheme *scheme = sign_scheme_find(cases[i].scheme);
	static struct http_head signed_head;
	static struct sign_memory m;
	char room[4096];
	double best = 1e9, began;

	make_head(i, &signed_head);
	sign_first(i, &signed_head, room);
	for (int round = 0; round < 5; round++) {
		began = seconds();
		for (int k = 0; k < ROUNDS; k++) {
			struct http_head head = signed_head;
			struct sign_chunks *chunks = NULL;
			enum sign_next next;
			struct err err = {0};

			m.used = 0;
			if (scheme->sign(NULL, &mine, &real, NULL, &head, NULL, &m, &next, &chunks, &err) < 0)
				give_up(cases[i].name, err.text);
		}
		began = (seconds() - began) / ROUNDS;
		best = began < best ? began : best;
	}
	return best;
}

/* One chunk, checked and signed. */
static double
measure_chunks(void)
{
	static const unsigned char a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	static const unsigned char b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
	static char body[CHUNK + 256];
	char hex[SIGV4_HEX_LEN];
	unsigned char hash[SIGV4_HASH_LEN];
	double best = 1e9, began;
	int at = snprintf(body, sizeof(body), "%x;chunk-signature=", CHUNK), n;
	char text[512];

	memset(body + at + 66, 'x', CHUNK);
	if (EVP_Digest(body + at + 66, CHUNK, hash, NULL, EVP_sha256(), NULL) != 1)
		give_up("chunks", "no SHA-256");
	codec_hex_digits(hash, sizeof(hash), hex);
	n = snprintf(text, sizeof(text), "AWS4-HMAC-SHA256-PAYLOAD\n" TIME "\ns\n" SIGNATURE "\n"
	             "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n%.64s", hex);
	sigv4_hmac(a, 32, text, (size_t)n, hash);
	codec_hex_digits(hash, sizeof(hash), body + at);
	memcpy(body + at + 64, "\r\n", 2);
	memcpy(body + at + 66 + CHUNK, "\r\n", 2);
	for (int round = 0; round < 200; round++) {
		const struct sign_chunks_start start = { false, TEXT(TIME), TEXT("s"), a, b, SIGNATURE,
			SIGNATURE };
		OWN(sign_chunks_freep) struct sign_chunks *c = NULL;
		struct http_text got = {0};
		size_t used = 0, all = (size_t)at + 66 + CHUNK + 2;

		if (sign_chunks_new(&start, &c, NULL) < 0)
			give_up("chunks", "no memory");
		began = seconds();
		for (size_t done = 0; done < all; done += used)
			if (sign_chunks_next(c, body + done, all - done, &used, &got, NULL) < 0)
				give_up("chunks", "refused");
		began = seconds() - began;
		if (got.len != all)
			give_up("chunks", "nothing came of it");
		best = began < best ? began : best;
	}
	return best;
}

int
main(void)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		printf("%s: %.0f\n", cases[i].name, measure(i) * 1e9);
	printf("chunk of 64 KiB: %.0f\n", measure_chunks() * 1e9);
	return EXIT_SUCCESS;
}
