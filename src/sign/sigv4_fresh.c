/* sigv4_fresh.c - signs a request of our own, which nobody has signed before. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "sign/sigv4.h"

#define FIELDS_MAX 32
#define LIST_MAX 1024

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* SignedHeaders: "host" and all fields, in order. */
static int
list_fields(const struct http_head *head, char ret_list[LIST_MAX], struct err *err)
{
	const char *names[FIELDS_MAX];
	char copies[FIELDS_MAX][64];
	size_t n = 0, used = 0;

	names[n++] = "host";
	for (size_t i = 0; i < head->n_fields; i++) {
		if (n == FIELDS_MAX || head->fields[i].name.len >= sizeof(copies[0]))
			return err_set(err, E2BIG, "the request has too many fields to sign");
		snprintf(copies[n], sizeof(copies[n]), "%.*s", (int)head->fields[i].name.len, head->fields[i].name.at);
		names[n] = copies[n];
		n++;
	}
	qsort(names, n, sizeof(names[0]), by_name);
	for (size_t i = 0; i < n; i++) {
		if (used + strlen(names[i]) + 2 > LIST_MAX)
			return err_set(err, E2BIG, "the request has too many fields to sign");
		used += (size_t)snprintf(ret_list + used, LIST_MAX - used, "%s%s", i > 0 ? ";" : "", names[i]);
	}
	return 0;
}

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

int
sigv4_sign_fresh(const struct sign_key *key, const char *region, const char *service, const struct http_head *head,
                 char ret_authorization[SIGV4_AUTHORIZATION_MAX], struct err *err)
{
	const struct http_text time = http_head_get(head, sigv4_row.date);
	char list[LIST_MAX], scope[SIGV4_SCOPE_MAX], hex[SIGV4_HEX_LEN], text[SIGV4_TO_SIGN_MAX];
	char signature[SIGV4_SIGNATURE_MAX];
	struct sigv4_canon canon = { .row = &sigv4_row, .head = head, .hash = http_head_get(head, sigv4_row.hash),
	                             .once = true };
	OWN(sigv4_key_close) struct sigv4_key signer = {0};
	struct sigv4_query query;
	size_t len;
	int n, r = sigv4_query_read(head->path, &query, err);

	if (r < 0)
		return r;
	n = snprintf(scope, sizeof(scope), "%.8s/%s/%s/%s", time.len >= 8 ? time.at : "", region, service,
	             sigv4_row.terminator);
	if (time.len != 16 || n >= (int)sizeof(scope))
		return err_set(err, EINVAL, "the request cannot be signed: its time or scope is malformed");
	canon.query = &query;
	r = list_fields(head, list, err);
	canon.fields = text_of(list);
	r = r == 0 ? sigv4_canon_hash(&canon, hex, err) : r;
	r = r == 0 ? sigv4_key_open(&sigv4_row, key, text_of(scope), &signer, err) : r;
	if (r < 0)
		return r;
	n = snprintf(text, sizeof(text), "%s\n%.16s\n%s\n%.*s", sigv4_row.label, time.at, scope, SIGV4_HEX_LEN, hex);
	r = sigv4_key_sign(&signer, text, (size_t)n, signature, &len, err);
	if (r < 0)
		return r;
	n = snprintf(ret_authorization, SIGV4_AUTHORIZATION_MAX, "%s Credential=%.*s/%s, SignedHeaders=%s, Signature=%.*s",
	             sigv4_row.label, (int)key->id.len, key->id.at, scope, list, (int)len, signature);
	return n < SIGV4_AUTHORIZATION_MAX ? 0 : err_set(err, E2BIG, "the request's signature is too long");
}

int
sigv4_sign_lines(const struct sign_key *key, const char *region, const char *service, const struct http_head *head,
                 char **ret_lines, struct err *err)
{
	char authorization[SIGV4_AUTHORIZATION_MAX];
	int r = sigv4_sign_fresh(key, region, service, head, authorization, err);

	for (size_t i = 0; r == 0 && i <= head->n_fields; i++) {
		const struct http_field *f = &head->fields[i];

		ret_lines[i] = i == head->n_fields ? str_format("authorization: %s", authorization) :
		               str_format("%.*s: %.*s", (int)f->name.len, f->name.at, (int)f->value.len, f->value.at);
		if (ret_lines[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return r;
}

void
sigv4_lines_free(char **lines, size_t n)
{
	for (size_t i = 0; i < n && lines[i] != NULL; i++) {
		explicit_bzero(lines[i], strlen(lines[i]));
		free(lines[i]);
	}
}
