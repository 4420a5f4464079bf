/* fuzz_schemes.c - a request as text, for the scheme that the first byte names: signed with a
 * placeholder, perhaps; signed anew it is canonical, and verifies with the other key. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "sign/sign_hmac.h"
#include "sign/sign_schemes.h"

static const struct {
	const struct sign_scheme *scheme;
	const char *row;                /* of HMAC templates */
	const char *id, *secret, *token;
} choices[] = {
	{ &sign_azure, NULL, "myaccount",
	  "Y2xvaXN0ZXIgdW5pdCB0ZXN0IGtleSBvZiBhIHN0b3JhZ2UgYWNjb3VudCAwMTIzNDU2Nzg5YWJjZA==", "" },
	{ &sign_jwt, NULL, "", "pl4ceholder secret", "" },
	{ &sign_oauth1, NULL, "id+placeholder", "c%26placeholder%20secret&t%2Fplaceholder",
	  "tok/placeholder" },
	{ &sign_message, NULL, "", "pl4ceholder", "" },
	{ &sign_hmac, "stripe", "", "pl4ceholder", "" },
	{ &sign_hmac, "twilio", "", "12345", "" },
	{ &sign_hmac, "binance", "", "pl4ceholder", "" },
	{ &sign_hmac, "kraken", "", "cGw0Y2Vob2xkZXI=", "" },
	{ &sign_hmac, "okx", "id", "pl4ceholder", "" },
};

static struct http_text
take_until(char **at, const char *end, const char *stops)
{
	struct http_text text = { *at, 0 };

	while (*at < end && **at != '\0' && strchr(stops, **at) == NULL)
		(*at)++;
	text.len = (size_t)(*at - text.at);
	if (*at < end)
		(*at)++;
	return text;
}

/* "GET https://host/path", lines "name: value", an empty line, the body. */
static bool
read_request(char *at, char *end, struct http_head *head, struct sign_body *body)
{
	struct http_text url, host;
	char name[HTTP_HOST_MAX + 1];

	*head = (struct http_head){ .scheme = HTTP_TLS, .port = 443 };
	head->method = take_until(&at, end, " \n");
	url = take_until(&at, end, "\n");
	if (url.len < 9 || memcmp(url.at, "https://", 8) != 0)
		return false;
	url.at += 8, url.len -= 8;
	host = (struct http_text){ url.at, strcspn(url.at, "/\n") };
	if (host.len >= url.len || http_authority_parse(host, name, &head->port, NULL) < 0)
		return false;
	head->host = (struct http_text){ host.at, strlen(name) };
	head->port = head->port == 0 ? 443 : head->port;
	head->path = (struct http_text){ url.at + host.len, url.len - host.len };
	while (at < end && *at != '\n' && head->n_fields < HTTP_FIELDS_MAX) {
		struct http_field *field = &head->fields[head->n_fields++];

		field->name = take_until(&at, end, ":\n");
		at += at < end && *at == ' ';
		field->value = take_until(&at, end, "\n");
	}
	at += at < end;
	*body = (struct sign_body){ at, (size_t)(end - at) };
	head->length = body->len;
	return http_head_check(head, NULL) == 0;
}

static int
sign(const struct sign_scheme *scheme, const void *with, const struct sign_key *from,
     const struct sign_key *to, struct http_head *head, const struct sign_body *body,
     struct sign_memory *m, struct err *err)
{
	struct sign_chunks *chunks = NULL;
	enum sign_next next;
	int r;

	m->used = 0;
	m->body = (struct sign_body){ NULL, 0 };
	r = scheme->sign(with, from, to, NULL, head, NULL, m, &next, &chunks, err);
	if (r == 0 && next == SIGN_WANTS_BODY)
		r = scheme->sign(with, from, to, NULL, head, body, m, &next, &chunks, err);
	assert(r < 0 || next == SIGN_DONE || next == SIGN_NOTHING);
	return r < 0 ? r : next == SIGN_NOTHING;
}

static void
try_scheme(size_t which, struct http_head *head, struct sign_body body)
{
	static const char other_secret[] = "b3RoZXI=";
	struct sign_memory *m = malloc(sizeof(*m)), *again = malloc(sizeof(*again));
	struct http_head before = *head;
	struct sign_key from = { scheme_text(choices[which].id), scheme_text(choices[which].secret),
	                         scheme_text(choices[which].token) };
	struct sign_key to = from;
	struct sign_hmac hmac;
	const void *with = choices[which].row != NULL ? &hmac : NULL;
	struct err err = {0};
	struct http_text id;
	int r;

	assert(m != NULL && again != NULL);
	if (choices[which].row != NULL)
		assert(sign_hmac_compile(sign_hmac_row(choices[which].row), &hmac, NULL) == 0);
	choices[which].scheme->find(head, &id);
	to.secret = scheme_text(other_secret);
	r = sign(choices[which].scheme, with, &from, &to, head, &body, m, &err);
	assert((r < 0) == (err.text[0] != '\0') && (r > 0 || r == -err.code));
	if (r != 0) {
		assert(head->n_fields == before.n_fields && head->path.at == before.path.at);
		for (size_t i = 0; i < head->n_fields; i++)
			assert(head->fields[i].value.at == before.fields[i].value.at);
	} else {
		assert(http_head_check(head, &err) == 0);
		if (m->body.at != NULL)
			body = m->body;
		assert(head->length == body.len);
		assert(sign(choices[which].scheme, with, &to, &from, head, &body, again, &err) == 0);
	}
	free(m);
	free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	OWN(freep) struct http_head *head = malloc(sizeof(*head));
	struct sign_body body;

	if (size == 0 || text == NULL || head == NULL)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (read_request(text, text + size - 1, head, &body))
		try_scheme(data[0] % (sizeof(choices) / sizeof(choices[0])), head, body);
	return 0;
}
