/* scheme_lab.c - see scheme_lab.h. */
#include "scheme_lab.h"

#include "base/err.h"

static struct http_text
slice(const char *from, const char *to)
{
	return (struct http_text){ from, (size_t)(to - from) };
}

static void
read_target(struct http_head *head, char *line, char *end)
{
	char *space = strchr(line, ' '), *url, *slash, host[HTTP_HOST_MAX + 1];
	size_t len;

	CHECK(space != NULL && space < end);
	head->method = slice(line, space);
	url = space + 1;
	head->scheme = strncmp(url, "https://", 8) == 0 ? HTTP_TLS : HTTP_PLAIN;
	url += head->scheme == HTTP_TLS ? 8 : 7;
	slash = memchr(url, '/', (size_t)(end - url));
	CHECK(slash != NULL);
	CHECK_OK(http_authority_parse(slice(url, slash), host, &head->port, NULL));
	CHECK(strlen(host) <= (size_t)(slash - url));
	memcpy(url, host, strlen(host));
	head->host = (struct http_text){ url, strlen(host) };
	if (head->port == 0)
		head->port = head->scheme == HTTP_TLS ? 443 : 80;
	CHECK_OK(http_path_normalise(slice(slash, end), slash, (size_t)(end - slash), &len, NULL));
	head->path = (struct http_text){ slash, len };
}

static void
read_field(struct sl_request *r, char *line, char *end)
{
	char *colon = memchr(line, ':', (size_t)(end - line));
	struct http_field *field = &r->head.fields[r->head.n_fields];

	CHECK(colon != NULL);
	field->name = slice(line, colon);
	field->value = slice(colon + 1 + strspn(colon + 1, " "), end);
	if (http_text_is(field->name, "content-length"))
		CHECK_OK(http_length_parse(field->value, &r->head.length, NULL));
	else
		r->head.n_fields++;
}

/* Until the test's process ends, where leaks are looked for. */
static const char *
keep(char *text)
{
	static struct kept {
		struct kept *next;
		char *text;
	} *all;
	struct kept *one = malloc(sizeof(*one));

	CHECK(one != NULL && text != NULL);
	*one = (struct kept){ all, text };
	all = one;
	return text;
}

struct sl_request *
sl_request(const char *text)
{
	struct sl_request *r = calloc(1, sizeof(*r));
	char *line, *end;

	CHECK(r != NULL);
	r->text = strdup(text);
	CHECK(r->text != NULL);
	r->head.length = HTTP_LENGTH_UNKNOWN;
	end = strchr(r->text, '\n');
	CHECK(end != NULL);
	read_target(&r->head, r->text, end);
	for (line = end + 1; *line != '\0' && *line != '\n'; line = end + 1) {
		end = strchr(line, '\n');
		CHECK(end != NULL);
		read_field(r, line, end);
	}
	r->body.at = *line == '\n' ? line + 1 : line;
	r->body.len = strlen(r->body.at);
	if (r->head.length == HTTP_LENGTH_UNKNOWN)
		r->head.length = r->body.len;
	CHECK_OK(http_head_check(&r->head, NULL));
	return r;
}

void
sl_request_free(struct sl_request *r)
{
	if (r != NULL)
		free(r->text);
	free(r);
}

void
sl_request_freep(struct sl_request **r)
{
	sl_request_free(*r);
}

char *
sl_show(const struct sl_request *r)
{
	const struct sign_body *body = r->m.body.at != NULL ? &r->m.body : &r->body;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	CHECK(out != NULL);
	fprintf(out, "%.*s %.*s\n", (int)r->head.method.len, r->head.method.at,
	        (int)r->head.path.len, r->head.path.at);
	for (size_t i = 0; i < r->head.n_fields; i++)
		fprintf(out, "%.*s: %.*s\n", (int)r->head.fields[i].name.len,
		        r->head.fields[i].name.at, (int)r->head.fields[i].value.len,
		        r->head.fields[i].value.at);
	fprintf(out, "\n%.*s", (int)body->len, (const char *)body->at);
	fclose(out);
	return text;
}

const char *
sl_field(const struct sl_request *r, const char *name)
{
	struct http_text text = http_head_get(&r->head, name);

	return keep(strndup(text.len > 0 ? text.at : "", text.len));
}

struct sign_key
sl_key(const char *id, const char *secret, const char *token)
{
	return (struct sign_key){ scheme_text(id), scheme_text(secret), scheme_text(token) };
}

/* Neither key, nor any value of the request that could be a signature. */
static void
check_tells_nothing(const struct sl_request *r, const struct sign_key *key)
{
	const struct http_text texts[] = { key->secret, key->token };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		CHECK(texts[i].len < 6 || memmem(r->error, strlen(r->error), texts[i].at,
		                                 texts[i].len) == NULL);
	for (size_t i = 0; i < r->head.n_fields; i++)
		CHECK(r->head.fields[i].value.len < 40 ||
		      memmem(r->error, strlen(r->error), r->head.fields[i].value.at,
		             r->head.fields[i].value.len) == NULL);
}

int
sl_sign(struct sl_request *r, const struct sign_scheme *scheme, const void *with,
         const struct sign_key *from, const struct sign_key *to)
{
	enum sign_next next = SIGN_WANTS_CHUNKS;
	struct sign_chunks *chunks = NULL;
	struct err err = {0};
	int result;

	result = scheme->sign(with, from, to, NULL, &r->head, NULL, &r->m, &next, &chunks, &err);
	r->wanted_body = result == 0 && next == SIGN_WANTS_BODY;
	if (r->wanted_body)
		result = scheme->sign(with, from, to, NULL, &r->head, &r->body, &r->m, &next, &chunks, &err);
	snprintf(r->error, sizeof(r->error), "%s", err.text);
	CHECK((result < 0) == (err.text[0] != '\0'));
	if (result < 0) {
		check_tells_nothing(r, from);
		check_tells_nothing(r, to);
		return result;
	}
	CHECK((next == SIGN_DONE || next == SIGN_NOTHING) && chunks == NULL);
	CHECK_OK(http_head_check(&r->head, NULL));
	CHECK(r->m.body.at == NULL || r->m.body.len == r->head.length);
	return 0;
}

void
sl_check_there_and_back(const char *text, const struct sign_scheme *scheme, const void *with,
                         const struct sign_key *from, const struct sign_key *to)
{
	OWN(sl_request_freep) struct sl_request *r = sl_request(text), *again = NULL;
	OWN(freep) char *before = sl_show(r), *between = NULL, *after = NULL;

	if (sl_sign(r, scheme, with, from, to) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", text, r->error);
	between = sl_show(r);
	CHECK(strcmp(before, between) != 0);
	again = sl_request(text);
	again->head = r->head;
	again->body = r->m.body.at != NULL ? r->m.body : r->body;
	if (sl_sign(again, scheme, with, to, from) < 0)
		test_fail(__FILE__, __LINE__, "and back: %s: %s", text, again->error);
	after = sl_show(again);
	CHECK_STR(after, before);
}

const char *
sl_hmac(const EVP_MD *md, enum sign_coding coding, const char *key, const char *message)
{
	struct scheme_secret secret = {0};
	unsigned char mac[SIGN_DIGEST_MAX];
	struct buf b;
	size_t len;

	secret.len = strlen(key);
	memcpy(secret.at, key, secret.len);
	CHECK_OK(scheme_hmac(md, &secret, scheme_text(message), mac, &len, NULL));
	buf_init(&b, 1024);
	scheme_put_coded(&b, coding, mac, len);
	buf_put(&b, "", 1);
	return keep((char *)b.data);
}
