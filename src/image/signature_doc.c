/* signature_doc.c - see signature_doc.h. */
#include "image/signature_doc.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"

void
signatures_free(struct signatures *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->list[i].payload);
	free(s->list);
	*s = (struct signatures){0};
}

static int
bad(struct err *err, const char *what)
{
	return err_set(err, EBADMSG, "%s is malformed", what);
}

static const char *
get_text(const json_t *object, const char *name)
{
	const json_t *member = json_object_get(object, name);
	const char *text = json_string_value(member);

	return text != NULL && strlen(text) == json_string_length(member) ? text : "";
}

/* Room for as many signatures as LIST has entries. */
static int
make_room(const json_t *list, struct signatures *s, struct err *err)
{
	s->list = calloc(json_array_size(list) + 1, sizeof(*s->list));
	return s->list != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static bool
read_bytes(const char *text, struct signature *s)
{
	return *text != '\0' &&
	       codec_unbase64(CODEC_BASE64, text, strlen(text), s->bytes, sizeof(s->bytes), &s->len) == 0 && s->len > 0;
}

/* ---- a registry's documents ---- */

static bool
read_layer(const json_t *layer, struct signature *ret_signature)
{
	const json_t *size = json_object_get(layer, "size");
	const char *digest = get_text(layer, "digest");
	unsigned char hash[HASH_LEN];

	if (strcmp(get_text(layer, "mediaType"), SIGNATURE_MEDIA_TYPE) != 0 || !hash_parse_name(digest, hash) ||
	    !json_is_integer(size) || json_integer_value(size) <= 0 || json_integer_value(size) > SIGNATURE_PAYLOAD_MAX ||
	    !read_bytes(get_text(json_object_get(layer, "annotations"), SIGNATURE_ANNOTATION), ret_signature))
		return false;
	snprintf(ret_signature->digest, sizeof(ret_signature->digest), "%s", digest);
	ret_signature->size = (uint64_t)json_integer_value(size);
	return true;
}

int
signatures_parse(const char *text, size_t len, struct signatures *ret_signatures, struct err *err)
{
	OWN(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	OWN(signatures_free) struct signatures found = {0};
	const json_t *layers = json_object_get(root, "layers");
	int r = json_is_array(layers) ? make_room(layers, &found, err) : bad(err, "the manifest of signatures");

	for (size_t i = 0; r == 0 && i < json_array_size(layers) && found.n < SIGNATURES_MAX; i++)
		found.n += read_layer(json_array_get(layers, i), &found.list[found.n]);
	if (r == 0) {
		*ret_signatures = found;
		found = (struct signatures){0};
	}
	return r;
}

int
signatures_parse_referrers(const char *text, size_t len, char ret_digests[SIGNATURES_MAX][HASH_NAME + 1],
                           struct err *err)
{
	OWN(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const json_t *manifests = json_object_get(root, "manifests");
	unsigned char hash[HASH_LEN];
	int n = 0;

	if (!json_is_array(manifests))
		return bad(err, "the list of referrers");
	for (size_t i = 0; i < json_array_size(manifests) && n < SIGNATURES_MAX; i++) {
		const json_t *one = json_array_get(manifests, i);

		if (strcmp(get_text(one, "artifactType"), SIGNATURE_ARTIFACT) == 0 &&
		    hash_parse_name(get_text(one, "digest"), hash))
			snprintf(ret_digests[n++], sizeof(ret_digests[0]), "%s", get_text(one, "digest"));
	}
	return n;
}

/* ---- the store's file ---- */

static json_t *
encode(const void *data, size_t len)
{
	OWN(freep) char *text = malloc(CODEC_BASE64_LEN(len) + 1);

	if (text == NULL)
		return NULL;
	codec_base64(CODEC_BASE64, data, len, text);
	return json_string(text);
}

int
signatures_write(const struct signatures *s, char **ret_text, struct err *err)
{
	OWN(json_decrefp) json_t *list = json_array();
	char *text;

	for (size_t i = 0; i < s->n; i++) {
		json_t *one = s->list[i].payload != NULL ? json_object() : NULL;

		if (s->list[i].payload == NULL)
			continue;
		if (json_object_set_new(one, "payload", encode(s->list[i].payload, s->list[i].size)) < 0 ||
		    json_object_set_new(one, "signature", encode(s->list[i].bytes, s->list[i].len)) < 0 ||
		    json_array_append_new(list, json_incref(one)) < 0) {
			json_decref(one);
			return err_set(err, ENOMEM, "out of memory");
		}
		json_decref(one);
	}
	text = json_dumps(list, JSON_COMPACT);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*ret_text = text;
	return 0;
}

static int
read_kept(const json_t *one, struct signature *s)
{
	const char *payload = get_text(one, "payload");
	size_t room = CODEC_BYTES_LEN(strlen(payload)), n;

	if (*payload == '\0' || room > 2 * SIGNATURE_PAYLOAD_MAX || !read_bytes(get_text(one, "signature"), s))
		return -EBADMSG;
	s->payload = malloc(room + 1);
	if (s->payload == NULL)
		return -ENOMEM;
	if (codec_unbase64(CODEC_BASE64, payload, strlen(payload), (unsigned char *)s->payload, room, &n) < 0)
		return -EBADMSG;
	s->size = n;
	return 0;
}

int
signatures_read(const char *text, size_t len, struct signatures *ret_signatures, struct err *err)
{
	OWN(json_decrefp) json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	OWN(signatures_free) struct signatures found = {0};
	int r = json_is_array(root) && json_array_size(root) <= 2 * SIGNATURES_MAX ? make_room(root, &found, err) : -EBADMSG;

	for (size_t i = 0; r == 0 && i < json_array_size(root); i++) {
		found.n++;
		r = read_kept(json_array_get(root, i), &found.list[i]);
	}
	if (r < 0)
		return r == -ENOMEM ? err_set(err, ENOMEM, "out of memory") : bad(err, "the file of signatures");
	*ret_signatures = found;
	found = (struct signatures){0};
	return 0;
}
