/* fuzz_hmac_template.c - a template, one line each for message, places and prefix; and a request
 * that is looked at with it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/sign_hmac.h"
#include "sign/sign_schemes.h"

static const struct http_field fields[] = {
	{ { "x", 1 }, { "t=1,v=00, v=11", 14 } },
	{ { "t", 1 }, { "17", 2 } },
	{ { "content-type", 12 }, { "application/x-www-form-urlencoded", 33 } },
};

static const char *
next_line(char **at)
{
	char *line = *at, *end;

	if (line == NULL || *line == '\0')
		return NULL;
	end = strchr(line, '\n');
	*at = end != NULL ? end + 1 : NULL;
	if (end != NULL)
		*end = '\0';
	return *line != '\0' ? line : NULL;
}

static void
try_signing(const struct sign_hmac *hmac)
{
	static const struct sign_body body = { "a=b&s=00&a=c", 12 };
	struct sign_key key = { { "id", 2 }, { "c2VjcmV0", 8 }, { "token", 5 } };
	struct sign_memory *m = calloc(1, sizeof(*m));
	struct http_head *head = calloc(1, sizeof(*head));
	struct sign_chunks *chunks = NULL;
	enum sign_next next;
	struct err err = {0};
	struct http_text id;
	int r;

	assert(m != NULL && head != NULL);
	head->method = scheme_text("GET");
	head->host = scheme_text("a.example");
	head->path = scheme_text("/p?s=00&q=%20");
	head->port = 443;
	head->scheme = HTTP_TLS;
	head->length = body.len;
	memcpy(head->fields, fields, sizeof(fields));
	head->n_fields = sizeof(fields) / sizeof(fields[0]);
	sign_hmac_find(hmac, head, &id);
	r = sign_hmac.sign(hmac, &key, &key, NULL, head, &body, m, &next, &chunks, &err);
	assert((r < 0) == (err.text[0] != '\0'));
	free(m);
	free(head);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	struct sign_hmac_template t = { .name = "fuzz" };
	struct sign_hmac hmac;
	struct err err = {0};
	char *at = text + 1;
	int r;

	if (size == 0 || text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	t.digest = (enum sign_digest)(data[0] & 3);
	t.secret = (enum sign_coding)(data[0] >> 2 & 3);
	t.signature = (enum sign_coding)(data[0] >> 4 & 3);
	t.message = next_line(&at);
	t.at = next_line(&at);
	t.id = next_line(&at);
	t.token = next_line(&at);
	t.timestamp = next_line(&at);
	t.nonce = next_line(&at);
	t.prefix = next_line(&at);
	r = sign_hmac_compile(&t, &hmac, &err);
	assert((r == 0) == (err.text[0] == '\0') && r == -err.code);
	if (r == 0) {
		assert(hmac.n == 1 && hmac.one[0].n_parts > 0);
		try_signing(&hmac);
	}
	return 0;
}
