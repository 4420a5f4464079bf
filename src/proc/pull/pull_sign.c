/* pull_sign.c - checks that an image is signed: with the signatures that the store keeps, or with those that a
 * registry has.
 *
 * A signature is of the image's manifest, or of the index that the manifest is listed in. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "image/signature_doc.h"
#include "proc/pull/pull.h"

#define FOLDER STORE_SIGNATURES         /* one file per signed manifest or index */

struct checking {
	struct pull *pull;
	unsigned met;                   /* bits: sets of keys of which one has signed */
	struct err why;                 /* why the last signature does not count */
	bool has_any;
};

static bool
is_met(const struct checking *c)
{
	return c->met == (1u << c->pull->n_sets) - 1;
}

/* ---- one signature ---- */

static void
check_one(struct checking *c, const struct signature *s, const char *subject)
{
	const struct pull *p = c->pull;
	char repository[sizeof(p->name.registry) + sizeof(p->name.repository)];
	unsigned met = 0;

	c->has_any = true;
	snprintf(repository, sizeof(repository), "%s/%s", p->name.registry, p->name.repository);
	for (size_t i = 0; i < p->n_keys; i++)
		if (signature_is_by(p->keys[i].key, s->payload, s->size, s->bytes, s->len))
			met |= 1u << p->keys[i].set;
	if (met == 0)
		(void)err_set(&c->why, EPERM, "it has a signature, but by none of the keys");
	else if (signature_check_payload(s->payload, s->size, subject, repository,
	                                 p->name.tag[0] != '\0' ? p->name.tag : NULL, &c->why) == 0)
		c->met |= met;
}

static void
check_all(struct checking *c, const struct signatures *s, const char *subject)
{
	for (size_t i = 0; i < s->n && !is_met(c); i++)
		if (s->list[i].payload != NULL)
			check_one(c, &s->list[i], subject);
}

/* ---- the store's own ---- */

static const char *
hex_of(const char *digest)
{
	return digest + sizeof(HASH_PREFIX) - 1;
}

static void
check_kept(struct checking *c, const char *subject)
{
	OWN(signatures_free) struct signatures s = {0};
	OWN(freep) char *text = NULL, *path = str_format(FOLDER "/%s", hex_of(subject));
	size_t len;

	if (path != NULL && read_file_at(store_folder(c->pull->store), path, SIGNATURES_FILE_MAX, &text, &len, NULL) == 0 &&
	    signatures_read(text, len, &s, NULL) == 0)
		check_all(c, &s, subject);
}

/* Not keeping them is no failure: the registry has them. */
static void
keep(const struct pull *p, const struct signatures *s, const char *subject)
{
	OWN(freep) char *text = NULL, *path = str_format(FOLDER "/%s", hex_of(subject));
	OWN(freep) char *new = str_format(FOLDER "/.new-%s", hex_of(subject));
	int top = store_folder(p->store);

	if (path == NULL || new == NULL || signatures_write(s, &text, NULL) < 0)
		return;
	if (mkdirat(top, FOLDER, 0700) < 0 && errno != EEXIST)
		return;
	if (create_file_at(top, new, 0600, text, NULL) == 0 && renameat(top, new, top, path) < 0)
		(void)unlinkat(top, new, 0);
}

/* ---- a registry's ---- */

static int
fetch_payload(struct pull *p, struct pull_source *source, struct signature *s, struct err *err)
{
	OWN(freep) char *path = str_format("/v2/%s/blobs/%s", source->repository, s->digest);
	OWN(buf_free) struct buf body = BUF(SIGNATURE_PAYLOAD_MAX);
	unsigned char hash[HASH_LEN];
	char digest[HASH_NAME + 1];
	struct pull_exchange x;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (pull_fetch(p, source, path, NULL, false, &x, &body, err) != PULL_DONE)
		return -err->code;
	hash_of(body.data, body.len, hash);
	hash_name(hash, digest);
	if (strcmp(digest, s->digest) != 0 || body.len != s->size)
		return err_set(err, EBADMSG, "the registry sends another payload of a signature than it names");
	s->payload = malloc(body.len + 1);
	if (s->payload == NULL)
		return err_set(err, ENOMEM, "out of memory");
	memcpy(s->payload, body.data, body.len);
	return 0;
}

/* REFERENCE: a tag or a digest of a manifest of signatures. */
static int
fetch_manifest(struct checking *c, struct pull_source *source, const char *reference, const char *subject,
               struct err *err)
{
	OWN(freep) char *path = str_format("/v2/%s/manifests/%s", source->repository, reference);
	OWN(signatures_free) struct signatures s = {0};
	OWN(buf_free) struct buf body = BUF(IMAGE_DOCUMENT_MAX);
	struct pull_exchange x;
	enum pull_next next;
	int r;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	next = pull_fetch(c->pull, source, path, IMAGE_TYPE_OCI_MANIFEST ", " IMAGE_TYPE_DOCKER_MANIFEST, false, &x, &body,
	                  err);
	if (next != PULL_DONE)
		return next == PULL_MISSING ? 0 : -err->code;
	r = signatures_parse((char *)body.data, body.len, &s, err);
	for (size_t i = 0; r == 0 && i < s.n; i++)
		r = fetch_payload(c->pull, source, &s.list[i], err);
	if (r < 0)
		return r;
	check_all(c, &s, subject);
	if (is_met(c))
		keep(c->pull, &s, subject);
	return 0;
}

/* A registry that does not know OCI 1.1 has none. */
static int
fetch_referrers(struct checking *c, struct pull_source *source, const char *subject, struct err *err)
{
	OWN(freep) char *path = str_format("/v2/%s/referrers/%s", source->repository, subject);
	OWN(buf_free) struct buf body = BUF(IMAGE_DOCUMENT_MAX);
	char digests[SIGNATURES_MAX][HASH_NAME + 1];
	struct pull_exchange x;
	struct err why = {0};
	int n, r = 0;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (pull_fetch(c->pull, source, path, IMAGE_TYPE_OCI_INDEX, false, &x, &body, &why) != PULL_DONE ||
	    (n = signatures_parse_referrers((char *)body.data, body.len, digests, &why)) < 0)
		return 0;
	for (int i = 0; r == 0 && i < n && !is_met(c); i++)
		r = fetch_manifest(c, source, digests[i], subject, err);
	return r;
}

static int
fetch(struct checking *c, struct pull_source *source, const char *subject, struct err *err)
{
	char tag[HASH_HEX + 16];
	int r;

	snprintf(tag, sizeof(tag), "sha256-%s.sig", hex_of(subject));
	r = fetch_manifest(c, source, tag, subject, err);
	return r < 0 || is_met(c) ? r : fetch_referrers(c, source, subject, err);
}

/* ---- all of them ---- */

/* Whether the index that is said to list the manifest does so. */
static bool
has_index(const struct pull *p)
{
	OWN(image_index_free) struct image_index index = {0};
	OWN(freep) char *text = NULL;
	size_t len;

	if (p->index[0] == '\0' || store_read_blob(p->store, p->index, IMAGE_DOCUMENT_MAX, &text, &len, NULL) < 0 ||
	    image_index_parse(text, len, &index, NULL) < 0)
		return false;
	for (size_t i = 0; i < index.n; i++)
		if (strcmp(index.list[i].digest, p->digest) == 0)
			return true;
	return false;
}

int
pull_check_signed(struct pull *p, struct pull_source *source, struct err *err)
{
	const char *subjects[] = { p->digest, has_index(p) ? p->index : NULL };
	struct checking c = { .pull = p };
	int r = 0;

	if (p->n_sets == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(subjects); i++)
		if (subjects[i] != NULL)
			check_kept(&c, subjects[i]);
	for (size_t i = ARRAY_LEN(subjects); r == 0 && source != NULL && !is_met(&c) && i-- > 0;)
		if (subjects[i] != NULL)
			r = fetch(&c, source, subjects[i], err);
	if (r < 0)
		return err_wrap(err, "its signatures cannot be read");
	if (is_met(&c))
		return 0;
	return err_set(err, EPERM, "%s", c.why.code != 0 ? c.why.text : c.has_any ? "not all of the keys that are required "
	               "have signed it" : "it is not signed, and a signature is required");
}
