/* build_policy.c - the policy of a build: its hash, and what it requires of the images that the build uses. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy_source.h"
#include "policy/policy_yaml.h"
#include "proc/build/build.h"
#include "trust/trust.h"

#define TEXT_MAX (16u << 20)            /* of a policy with everything that it names */

static int
take_file(void *arg, const struct node *node, const char *path, struct err *err)
{
	struct policy_source *s = arg;
	struct err why = {0};

	s->is_more = true;
	return trust_path(TRUST_POLICY_EXTENDED, path, &why) < 0 ? node_err(err, node, "%s", why.text) : 0;
}

/* TEXT: the policy with the files that it extends and includes. */
static int
read_file(struct build *b, const char *path, struct buf *ret_text, struct err *err)
{
	OWN(policy_source_free) struct policy_source s;
	OWN(policy_freep) struct policy *p = NULL;
	struct policy_limits limits = {0};
	struct policy_reader reader;
	int r = trust_path(TRUST_POLICY, path, err);

	policy_source_init(&s);
	reader = policy_source_reader(&s);
	reader.file = take_file;
	reader.may_cover = false;
	if (r == 0)
		r = policy_load_file(AT_FDCWD, path, &reader, &p, &limits, err);
	if (r < 0)
		return r;
	policy_images_text(&limits.images, b->require);
	policy_source_put(ret_text, &s);
	return buf_failed(ret_text) ? err_set(err, E2BIG, "the policy is too large") : 0;
}

int
build_read_policy(struct build *b, struct err *err)
{
	static const char *const options[] = { "allow", "secret" };
	const char *policy = args_get(b->options, "policy"), *value;
	OWN(buf_free) struct buf text = BUF(TEXT_MAX);
	struct hash h;
	int r = policy == NULL ? 0 : read_file(b, policy, &text, err);

	if (r < 0)
		return r;
	buf_put(&text, "", 1);
	if (buf_failed(&text))
		return err_set(err, ENOMEM, "out of memory");
	hash_begin(&h);
	hash_add(&h, text.data, text.len);
	b->has_policy = policy != NULL;
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		for (size_t at = 0; (value = args_next(b->options, options[i], &at)) != NULL;) {
			hash_add(&h, options[i], strlen(options[i]) + 1);
			hash_add(&h, value, strlen(value) + 1);
			b->has_policy = true;
		}
	hash_end(&h, b->policy);
	return 0;
}
