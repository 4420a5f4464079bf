/* policy_images.h - `images`: what a policy requires of the images that cells are made of.
 *
 *     images: {require: signature, keys: [/etc/cloister/release.pub]}
 *     images: {require: digest}
 *
 * Requirements of several policies add up.  Each list of keys is a set, of which one key must have signed.
 * Pure. */
#ifndef CLOISTER_POLICY_IMAGES_H
#define CLOISTER_POLICY_IMAGES_H
#include <stdbool.h>

struct err;
struct node;

#define POLICY_IMAGES_MAX 2048          /* bytes of all keys' paths together */
#define POLICY_IMAGES_TEXT_MAX (POLICY_IMAGES_MAX + 32)
#define POLICY_IMAGES_SETS_MAX 16

struct policy_images {
	bool is_set;
	bool digest;                    /* a reference must have a digest */
	char keys[POLICY_IMAGES_MAX + 1];       /* sets separated by ";", the files of one by ","; "": none */
};

/* "", "digest", "signature:/a.pub,/b.pub", "digest;signature:/a.pub;signature:/c.pub" */
int policy_images_parse(const char *text, struct policy_images *ret_images, struct err *err);
/* As policy_images_parse() takes it; returns TEXT. */
const char *policy_images_text(const struct policy_images *i, char text[POLICY_IMAGES_TEXT_MAX + 1]);
/* Read the value of `images`.  Errors begin with the place. */
int policy_images_read(const struct node *node, struct policy_images *ret_images, struct err *err);

/* Add what DEMAND requires to ALL.  -E2BIG. */
int policy_images_add(struct policy_images *all, const struct policy_images *demand, struct err *err);

/* Check roots that are not in cloister's store, where cloister-image checks them.  An engine's image is pinned if the
 * reference REF names its digest, or the caller compares it with one.  A folder has neither signature nor digest. */
int policy_images_check_engine(const struct policy_images *i, const char *ref, bool is_compared, struct err *err);
int policy_images_check_folder(const struct policy_images *i, struct err *err);
#endif
