/* pull_manifest.c - finds the image that a name means at a registry: index, platform and manifest. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/own.h"
#include "proc/pull/pull.h"

#define ACCEPT IMAGE_TYPE_OCI_INDEX ", " IMAGE_TYPE_OCI_MANIFEST ", " IMAGE_TYPE_DOCKER_LIST ", " \
	IMAGE_TYPE_DOCKER_MANIFEST

struct document {
	struct buf body;
	char digest[HASH_NAME + 1];
	char type[IMAGE_TEXT_MAX + 1];
};

static void
document_free(struct document *d)
{
	buf_free(&d->body);
}

static void
set_base(struct pull_source *s)
{
	const char *open = strchr(s->origin.host, ':') != NULL ? "[" : "", *close = *open != '\0' ? "]" : "";

	snprintf(s->base, sizeof(s->base), "%s://%s%s%s:%u", s->origin.is_tls ? "https" : "http", open, s->origin.host,
	         close, s->origin.port);
}

/* On this machine, a registry without TLS is common.  One with TLS and a bad certificate is refused. */
int
pull_greet(struct pull *p, struct pull_source *source, struct err *err)
{
	OWN(buf_free) struct buf body = BUF(64 * 1024);
	bool has_port = source->name[strcspn(source->name, "]")] == ']' ? strstr(source->name, "]:") != NULL :
	                strchr(source->name, ':') != NULL;
	struct pull_exchange x;

	set_base(source);
	if (source->is_known || source->insecure || !challenge_is_loopback(source->origin.host))
		return 0;
	source->is_known = true;
	source->answers_only = true;
	(void)pull_fetch(p, source, "/v2/", NULL, false, &x, &body, err);
	source->answers_only = false;
	if (x.code == CURLE_SSL_CONNECT_ERROR) {
		source->origin.is_tls = false;
		source->origin.port = has_port ? source->origin.port : 80;
		set_base(source);
	} else if (x.status == 0) {
		return -err->code;
	}
	return 0;
}

/* ---- documents ---- */

static int
check_type(const struct document *d, struct err *err)
{
	static const char *const known[] = { IMAGE_TYPE_OCI_INDEX, IMAGE_TYPE_OCI_MANIFEST, IMAGE_TYPE_DOCKER_LIST,
		IMAGE_TYPE_DOCKER_MANIFEST, "application/json", "application/octet-stream", "" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(d->type, known[i]) == 0)
			return 0;
	if (strstr(d->type, "manifest.v1+") != NULL)
		return err_set(err, ENOTSUP, "it is an image of Docker's old schema 1, which names no contents: push it anew");
	return err_set(err, EBADMSG, "the registry sends '%.100s', which is no manifest", d->type);
}

static int
name_document(struct document *d, struct err *err)
{
	unsigned char hash[HASH_LEN];

	if (d->body.len == 0)
		return err_set(err, EBADMSG, "the registry sends an empty manifest");
	hash_of(d->body.data, d->body.len, hash);
	hash_name(hash, d->digest);
	return check_type(d, err);
}

/* The store may have it already. */
static bool
find_stored(const struct pull *p, const char *digest, struct document *d)
{
	OWN(freep) char *text = NULL;
	size_t len;

	if (!store_has_blob(p->store, digest) ||
	    store_read_blob(p->store, digest, IMAGE_DOCUMENT_MAX, &text, &len, NULL) < 0)
		return false;
	buf_reset(&d->body);
	buf_put(&d->body, text, len);
	snprintf(d->digest, sizeof(d->digest), "%s", digest);
	d->type[0] = '\0';
	return !buf_failed(&d->body);
}

/* REFERENCE is a tag or a digest.  WANTED: its digest, or "". */
static int
get_document(struct pull *p, struct pull_source *s, const char *reference, const char *wanted,
             struct document *d, struct err *err)
{
	OWN(freep) char *path = str_format("/v2/%s/manifests/%s", s->repository, reference);
	struct pull_exchange x;
	int r;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (*wanted != '\0' && find_stored(p, wanted, d))
		return 0;
	if (pull_fetch(p, s, path, ACCEPT, false, &x, &d->body, err) != PULL_DONE)
		return -err->code;
	snprintf(d->type, sizeof(d->type), "%s", x.type);
	r = name_document(d, err);
	if (r < 0)
		return r;
	if (*wanted != '\0' && strcmp(d->digest, wanted) != 0)
		return err_set(err, EBADMSG, "the registry sends the manifest %s instead of %s", d->digest, wanted);
	if (x.digest[0] != '\0' && strcmp(d->digest, x.digest) != 0)
		return err_set(err, EBADMSG, "the registry calls its manifest %.80s, but that is %s", x.digest, d->digest);
	return 0;
}

/* Asking for the digest alone costs no quota at some registries, and tells whether there is anything new. */
static int
ask_digest(struct pull *p, struct pull_source *s, char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(freep) char *path = str_format("/v2/%s/manifests/%s", s->repository, p->name.tag);
	unsigned char hash[HASH_LEN];
	struct pull_exchange x;
	enum pull_next next;

	ret_digest[0] = '\0';
	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	next = pull_fetch(p, s, path, ACCEPT, true, &x, NULL, err);
	if (next == PULL_DONE && hash_parse_name(x.digest, hash))
		memcpy(ret_digest, x.digest, sizeof(x.digest));
	return next == PULL_DONE || next == PULL_MISSING ? 0 : -err->code;
}

/* ---- the choice ---- */

/* "linux/arm64/v8", "arm64" */
static int
choose(const struct pull *p, const struct image_index *index, const struct image_descriptor **ret_chosen,
       struct err *err)
{
	const char *at = p->platform;
	char architecture[IMAGE_TEXT_MAX + 1];
	size_t n;

	if (at == NULL)
		return image_index_choose(index, image_architecture(), ret_chosen, err);
	at += strncmp(at, "linux/", 6) == 0 ? 6 : 0;
	n = strcspn(at, "/");
	if (n == 0 || n >= sizeof(architecture) || strlen(at) > n + 32)
		return err_set(err, EINVAL, "'%.100s' is not a platform: write linux/amd64 or linux/arm/v7", p->platform);
	memcpy(architecture, at, n);
	architecture[n] = '\0';
	if (at[n] == '\0')
		return image_index_choose(index, architecture, ret_chosen, err);
	for (size_t i = 0; i < index->n; i++) {
		*ret_chosen = &index->list[i];
		if (strcmp(index->list[i].os, "linux") == 0 && strcmp(index->list[i].architecture, architecture) == 0 &&
		    strcmp(index->list[i].variant, at + n + 1) == 0)
			return 0;
	}
	return err_set(err, ENOENT, "it has no image for '%.100s'", p->platform);
}

static int
keep(struct pull *p, const struct document *d, struct err *err)
{
	return store_has_blob(p->store, d->digest) ? 0 : store_put_blob(p->store, d->body.data, d->body.len, NULL, err);
}

/* D is an index: it becomes the manifest that the platform has. */
static int
enter_index(struct pull *p, struct pull_source *s, struct document *d, struct err *err)
{
	OWN(image_index_free) struct image_index index = {0};
	const struct image_descriptor *chosen;
	int r = image_index_parse((char *)d->body.data, d->body.len, &index, err);

	r = r == 0 ? choose(p, &index, &chosen, err) : r;
	r = r == 0 ? keep(p, d, err) : r;
	if (r < 0)
		return r;
	snprintf(p->index, sizeof(p->index), "%s", d->digest);
	buf_reset(&d->body);
	r = get_document(p, s, chosen->digest, chosen->digest, d, err);
	if (r == 0 && d->body.len != chosen->size)
		r = err_set(err, EBADMSG, "the manifest %s has %zu bytes, and should have %" PRIu64, d->digest, d->body.len,
		            chosen->size);
	return r;
}

int
pull_find_manifest(struct pull *p, struct pull_source *source, struct err *err)
{
	OWN(document_free) struct document d = { .body = BUF(IMAGE_DOCUMENT_MAX) };
	char wanted[HASH_NAME + 1];
	enum image_document kind;
	int r = 0;

	p->index[0] = '\0';
	snprintf(wanted, sizeof(wanted), "%s", p->name.digest);
	if (wanted[0] == '\0')
		r = ask_digest(p, source, wanted, err);
	if (r == 0)
		r = get_document(p, source, wanted[0] != '\0' ? wanted : p->name.tag, wanted, &d, err);
	if (r == 0)
		r = image_document_kind((char *)d.body.data, d.body.len, d.type, &kind, err);
	if (r == 0 && kind == IMAGE_DOCUMENT_INDEX) {
		r = enter_index(p, source, &d, err);
		if (r == 0)
			r = image_document_kind((char *)d.body.data, d.body.len, d.type, &kind, err);
		if (r == 0 && kind == IMAGE_DOCUMENT_INDEX)
			r = err_set(err, EBADMSG, "its index leads to another index");
	}
	r = r == 0 ? keep(p, &d, err) : r;
	snprintf(p->digest, sizeof(p->digest), "%s", d.digest);
	p->manifest_size = d.body.len;
	return r;
}
