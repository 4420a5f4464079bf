/* resign.c - signs requests anew for tests: a JSON object a line in, one out.
 *
 * In: scheme, from and to ({id, secret, token}), method, host, port, tls, path, fields
 * ([[name, value], ...]), body (hex; how it is wanted is the scheme's business), piece (how
 * the body of signed chunks is cut).  Out: next, path, fields, body (of signed chunks), or
 * error. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/sign.h"
#include "sign/sign_chunks.h"

static struct http_text
text_of(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return (struct http_text){ value == NULL ? "" : json_string_value(value),
		json_string_length(value) };
}

static struct sign_key
key_of(const json_t *object)
{
	return (struct sign_key){ text_of(object, "id"), text_of(object, "secret"),
		text_of(object, "token") };
}

static json_t *
json_of(struct http_text text)
{
	return json_stringn(text.at, text.len);
}

static struct sign_body
body_of(struct http_text hex)
{
	unsigned char *bytes = malloc(hex.len / 2 + 1);

	if (bytes == NULL)
		abort();
	for (size_t i = 0; i + 1 < hex.len; i += 2)
		bytes[i / 2] = (unsigned char)(codec_hex_value(hex.at[i]) << 4 |
		                               codec_hex_value(hex.at[i + 1]));
	return (struct sign_body){ bytes, hex.len / 2 };
}

/* The request as the gate would hand it on. */
static int
read_head(const json_t *in, char *path, size_t size, struct http_head *head, struct err *err)
{
	json_t *fields = json_object_get(in, "fields"), *pair;
	size_t i;
	int r;

	memset(head, 0, sizeof(*head));
	head->method = text_of(in, "method");
	head->host = text_of(in, "host");
	head->port = (uint16_t)json_integer_value(json_object_get(in, "port"));
	head->scheme = json_is_true(json_object_get(in, "tls")) ? HTTP_TLS : HTTP_PLAIN;
	head->length = text_of(in, "body").len / 2;
	head->path.at = path;
	r = http_path_normalise(text_of(in, "path"), path, size, &head->path.len, err);
	if (r < 0)
		return r;
	json_array_foreach(fields, i, pair) {
		const json_t *name = json_array_get(pair, 0), *value = json_array_get(pair, 1);

		if (i == HTTP_FIELDS_MAX)
			return err_set(err, E2BIG, "too many fields");
		head->fields[head->n_fields++] = (struct http_field){
			{ json_string_value(name), json_string_length(name) },
			{ json_string_value(value), json_string_length(value) } };
	}
	return http_head_check(head, err);
}

static int
pass_chunks(struct sign_chunks *c, struct sign_body body, size_t piece, json_t *out,
            struct err *err)
{
	OWN(freep) char *hex = calloc(1, 2 * body.len + 1);
	const unsigned char *data = body.at;
	size_t n = 0, used;
	struct http_text got;
	int r;

	if (hex == NULL)
		abort();
	for (size_t at = 0; at < body.len; at += used) {
		size_t len = body.len - at < piece ? body.len - at : piece;

		r = sign_chunks_next(c, data + at, len, &used, &got, err);
		if (r < 0)
			return r;
		for (size_t i = 0; i < got.len; i++, n += 2)
			snprintf(hex + n, 3, "%02x", (unsigned char)got.at[i]);
	}
	json_object_set_new(out, "body", json_string(hex));
	return sign_chunks_end(c, err);
}

static int
answer(const json_t *in, json_t *out, struct err *err)
{
	static const char *const nexts[] = { "done", "body", "chunks" };
	static struct sign_memory memory;
	static char path[HTTP_HEAD_MAX];
	const struct sign_scheme *scheme = sign_scheme_find(text_of(in, "scheme").at);
	const struct sign_key from = key_of(json_object_get(in, "from"));
	const struct sign_key to = key_of(json_object_get(in, "to"));
	OWN(sign_chunks_freep) struct sign_chunks *chunks = NULL;
	struct sign_body body = body_of(text_of(in, "body"));
	enum sign_next next = SIGN_DONE;
	struct http_head head;
	json_t *fields;
	int r;

	memory.used = 0;
	r = scheme == NULL ? err_set(err, EINVAL, "no such scheme") :
		read_head(in, path, sizeof(path), &head, err);
	if (r == 0)
		r = scheme->sign(NULL, &from, &to, NULL, &head, NULL, &memory, &next, &chunks, err);
	if (r == 0)
		json_object_set_new(out, "next", json_string(nexts[next]));
	if (r == 0 && next == SIGN_WANTS_BODY)
		r = scheme->sign(NULL, &from, &to, NULL, &head, &body, &memory, &next, &chunks, err);
	if (r == 0)
		r = http_head_check(&head, err);
	if (r == 0 && next == SIGN_WANTS_CHUNKS)
		r = pass_chunks(chunks, body,
		                (size_t)json_integer_value(json_object_get(in, "piece")), out, err);
	free((void *)(uintptr_t)body.at);
	if (r < 0)
		return r;
	json_object_set_new(out, "path", json_of(head.path));
	fields = json_array();
	for (size_t i = 0; i < head.n_fields; i++)
		json_array_append_new(fields, json_pack("[oo]", json_of(head.fields[i].name),
		                                        json_of(head.fields[i].value)));
	json_object_set_new(out, "fields", fields);
	return 0;
}

int
main(void)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	while ((len = getline(&line, &size, stdin)) > 0) {
		json_t *in = json_loadb(line, (size_t)len, 0, NULL), *out = json_object();
		struct err err = {0};

		if (in == NULL || out == NULL)
			return EXIT_FAILURE;
		if (answer(in, out, &err) < 0)
			json_object_set_new(out, "error", json_string(err.text));
		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
		fflush(stdout);
		json_decref(in);
		json_decref(out);
	}
	free(line);
	return EXIT_SUCCESS;
}
