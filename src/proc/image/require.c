/* require.c - what policies require of an image before a cell is made of it: see policy/policy_images.h.
 *
 * An image that is in the store is checked again each time: the policy may be a new one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "policy/policy_images.h"
#include "proc/image/image_proc.h"

#define OPTION "--require="

/* Has cloister-pull fetch the image NAME, or with DIGEST check the signatures of that image in the store. */
static int
ask_pull(struct store *s, const struct image_name *name, const char *require, const char *digest,
         char ret_digest[HASH_NAME + 1], struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *option = str_format(OPTION "%s", require);
	OWN(freep) char *only = str_format("--verify=%s", digest != NULL ? digest : "");
	char *options[] = { option, only };
	struct args args = { .options = options, .n_options = digest != NULL ? 2 : 1 };
	int r;

	if (option == NULL || only == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (digest != NULL)
		return run_pull(name, &args, ret_digest, err);
	r = image_pull(s, name, &args, &image, err);
	if (r == 0)
		memcpy(ret_digest, image.digest, HASH_NAME + 1);
	return r;
}

static int
check_kind(const struct image_ref *ref, const struct policy_images *images, struct err *err)
{
	if (images->digest && (ref->kind != IMAGE_REF_REGISTRY || ref->name.digest[0] == '\0'))
		return err_set(err, EPERM, "the policy requires a digest: write NAME@sha256:...");
	if (images->keys[0] != '\0' && ref->kind != IMAGE_REF_REGISTRY)
		return err_set(err, EPERM, "the policy requires a signature, which only images of registries have");
	return 0;
}

static int
check_signed(struct store *s, const char *word, const struct image_name *name, const char *require,
             char ret_digest[HASH_NAME + 1], char **ret_name, struct err *err)
{
	OWN(store_image_free) struct store_image image = {0};
	OWN(freep) char *stored = NULL;
	struct image_ref ref = {0};
	int r = image_find(s, word, &image, &stored, err);

	if (r < 0 && (r != -ENOENT || name == NULL))
		return r;
	/* A digest may have any name here: its signature is for the one that was asked for. */
	if (r < 0 || (name != NULL && name->digest[0] != '\0'))
		ref.name = *name;
	else if (stored == NULL || image_ref_parse(stored, &ref, NULL) < 0 || ref.kind != IMAGE_REF_REGISTRY)
		return err_set(err, EPERM, "the policy requires a signature, and this image has no name in a registry");
	/* What has a digest already need not have it in its name. */
	if (r == 0 && strncmp(require, "digest;", 7) == 0)
		require += 7;
	*ret_name = strdup(ref.name.full);
	return *ret_name == NULL ? err_set(err, ENOMEM, "out of memory") :
	       ask_pull(s, &ref.name, require, r == 0 ? image.digest : NULL, ret_digest, err);
}

int
require_check(struct store *s, const char *word, const char *require, char ret_digest[HASH_NAME + 1],
              char **ret_name, struct err *err)
{
	struct policy_images images;
	unsigned char hash[HASH_LEN];
	struct image_ref ref = {0};
	bool is_digest = image_ref_is_digest(word);
	int r = policy_images_parse(require, &images, err);

	ret_digest[0] = '\0';
	if (r == 0 && !is_digest)
		r = image_ref_parse(word, &ref, err);
	if (r < 0)
		return r;
	/* That one is cloister's own. */
	if (!is_digest && (ref.kind == IMAGE_REF_MINIMAL || strcmp(ref.name.full, IMAGE_MINIMAL) == 0))
		return 0;
	/* A few of its digits are no digest. */
	r = hash_parse_name(word, hash) ? 0 : check_kind(&ref, &images, err);
	return r < 0 || images.keys[0] == '\0' ? r : check_signed(s, word, is_digest ? NULL : &ref.name, require, ret_digest,
	                                                         ret_name, err);
}
