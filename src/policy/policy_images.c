/* policy_images.c - see policy_images.h. */
#include "policy/policy_images.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_yaml.h"

#define DIGEST "digest"
#define SIGNATURE "signature"
#define SHA256_DIGITS 64

/* ---- sets of keys ---- */

static bool
has_set(const char *keys, const char *set, size_t len)
{
	for (const char *at = keys; *at != '\0'; at += strcspn(at, ";"), at += *at == ';')
		if (strcspn(at, ";") == len && memcmp(at, set, len) == 0)
			return true;
	return false;
}

static size_t
count_sets(const char *keys)
{
	size_t n = *keys != '\0';

	for (; *keys != '\0'; keys++)
		n += *keys == ';';
	return n;
}

static int
add_set(struct policy_images *all, const char *set, size_t len, struct err *err)
{
	size_t used = strlen(all->keys);

	if (has_set(all->keys, set, len))
		return 0;
	if (used + len + 1 > POLICY_IMAGES_MAX || count_sets(all->keys) == POLICY_IMAGES_SETS_MAX)
		return err_set(err, E2BIG, "there are too many keys for images");
	snprintf(all->keys + used, sizeof(all->keys) - used, "%s%.*s", used > 0 ? ";" : "", (int)len, set);
	return 0;
}

int
policy_images_add(struct policy_images *all, const struct policy_images *demand, struct err *err)
{
	int r = 0;

	all->is_set = all->is_set || demand->is_set;
	all->digest = all->digest || demand->digest;
	for (const char *at = demand->keys; r == 0 && *at != '\0'; at += strcspn(at, ";"), at += *at == ';')
		r = add_set(all, at, strcspn(at, ";"), err);
	return r;
}

/* ---- text ---- */

static bool
is_path(const char *text, size_t len)
{
	if (len < 2 || text[0] != '/')
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || strchr(",;", text[i]) != NULL)
			return false;
	return true;
}

static bool
is_set_of_paths(const char *text, size_t len)
{
	for (size_t n; ; text += n + 1, len -= n + 1) {
		const char *comma = memchr(text, ',', len);

		n = comma != NULL ? (size_t)(comma - text) : len;
		if (!is_path(text, n))
			return false;
		if (comma == NULL)
			return true;
	}
}

int
policy_images_parse(const char *text, struct policy_images *ret_images, struct err *err)
{
	static const char before[] = SIGNATURE ":";
	struct policy_images found = { .is_set = *text != '\0' };
	int r = 0;

	for (const char *at = text; r == 0 && *at != '\0'; at += strcspn(at, ";"), at += *at == ';') {
		size_t len = strcspn(at, ";"), n = sizeof(before) - 1;

		if (len == strlen(DIGEST) && strncmp(at, DIGEST, len) == 0)
			found.digest = true;
		else if (len > n && strncmp(at, before, n) == 0 && is_set_of_paths(at + n, len - n))
			r = add_set(&found, at + n, len - n, err);
		else
			r = err_set(err, EINVAL, "'%.100s' is no requirement for images: " DIGEST ", or " SIGNATURE ":FILE,FILE", at);
	}
	if (r == 0)
		*ret_images = found;
	return r;
}

const char *
policy_images_text(const struct policy_images *i, char text[POLICY_IMAGES_TEXT_MAX + 1])
{
	size_t n = (size_t)snprintf(text, POLICY_IMAGES_TEXT_MAX + 1, "%s", i->digest ? DIGEST : "");

	for (const char *at = i->keys; *at != '\0' && n < POLICY_IMAGES_TEXT_MAX;
	     at += strcspn(at, ";"), at += *at == ';')
		n += (size_t)snprintf(text + n, POLICY_IMAGES_TEXT_MAX + 1 - n, "%s" SIGNATURE ":%.*s", n > 0 ? ";" : "",
		                      (int)strcspn(at, ";"), at);
	return text;
}

/* ---- the policy's key ---- */

static int
read_keys(const struct node *node, struct policy_images *images, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1, used = 0;

	if (n == 0 || node->kind == NODE_MAP)
		return node_err(err, node, "`keys` is a list of files with public keys");
	for (size_t i = 0; i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (item->kind != NODE_SCALAR || !is_path(item->text, strlen(item->text)))
			return node_err(err, item, "a key is the absolute path of a file, without ',' and ';'");
		used += (size_t)snprintf(images->keys + used, sizeof(images->keys) - used, "%s%s", i > 0 ? "," : "", item->text);
		if (used >= sizeof(images->keys))
			return node_err(err, item, "the paths of the keys have over %d bytes", POLICY_IMAGES_MAX);
	}
	return 0;
}

static int
read_require(const struct node *node, bool *ret_signature, bool *ret_digest, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;

	for (size_t i = 0; i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (item->kind == NODE_SCALAR && strcmp(item->text, SIGNATURE) == 0)
			*ret_signature = true;
		else if (item->kind == NODE_SCALAR && strcmp(item->text, DIGEST) == 0)
			*ret_digest = true;
		else
			return node_err(err, item, "an image must have a `signature` or a `digest`");
	}
	return n > 0 ? 0 : node_err(err, node, "an image must have a `signature` or a `digest`");
}

int
policy_images_read(const struct node *node, struct policy_images *ret_images, struct err *err)
{
	struct policy_images found = { .is_set = true };
	bool needs_signature = false;
	int r = node->kind == NODE_MAP ? 0 : node_err(err, node, "`images` is a map: {require: signature, keys: [FILE]}");

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i];

		if (strcmp(key->text, "require") == 0)
			r = read_require(node->values[i], &needs_signature, &found.digest, err);
		else if (strcmp(key->text, "keys") == 0)
			r = read_keys(node->values[i], &found, err);
		else
			r = node_err(err, key, "there is no '%.64s' in `images`: it takes require and keys", key->text);
	}
	if (r == 0 && !needs_signature && !found.digest)
		r = node_err(err, node, "`images` says what it requires: {require: signature, keys: [FILE]} or {require: digest}");
	if (r == 0 && needs_signature != (found.keys[0] != '\0'))
		r = node_err(err, node, needs_signature ? "`require: signature` needs the keys that sign: keys: [FILE]" :
		             "`keys` goes with `require: signature`");
	if (r == 0)
		*ret_images = found;
	return r;
}

/* ---- roots outside the store ---- */

static bool
names_digest(const char *ref)
{
	static const char prefix[] = "sha256:";
	const char *at = strrchr(ref, '@'), *digest = at != NULL ? at + 1 : ref;

	return strncmp(digest, prefix, strlen(prefix)) == 0 &&
	       strspn(digest + strlen(prefix), "0123456789abcdef") == SHA256_DIGITS &&
	       digest[strlen(prefix) + SHA256_DIGITS] == '\0';
}

int
policy_images_check_engine(const struct policy_images *i, const char *ref, bool is_compared, struct err *err)
{
	if (i->keys[0] != '\0')
		return err_set(err, ENOTSUP, "the policy requires a signature, and an engine's images are not checked for one: "
		               "use another boundary");
	if (i->digest && !is_compared && !names_digest(ref))
		return err_set(err, EPERM, "the policy requires a digest: write NAME@sha256:...");
	return 0;
}

int
policy_images_check_folder(const struct policy_images *i, struct err *err)
{
	return !i->is_set ? 0 :
	       err_set(err, EPERM, "the policy requires a %s of images, and a folder as root has none: use an image from "
	               "cloister's own store", i->keys[0] != '\0' ? SIGNATURE : DIGEST);
}
