/* policy_source.c - see policy_source.h. */
#include "policy/policy_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy.h"

void
policy_source_init(struct policy_source *s)
{
	*s = (struct policy_source){0};
	policy_flat_init(&s->flat);
}

void
policy_source_free(struct policy_source *s)
{
	policy_flat_free(&s->flat);
	free(TAKE(s->text));
}

int
policy_source_text(struct policy_source *s, const char *text, size_t len, struct err *err)
{
	free(s->text);
	s->text = malloc(len + 1);
	if (s->text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	memcpy(s->text, text, len);
	s->text[len] = '\0';
	s->len = len;
	return 0;
}

int
policy_source_short(struct policy_source *s, const char *text, struct err *err)
{
	OWN(buf_free) struct buf line = BUF(POLICY_FILE_MAX);
	int r;

	s->is_more = true;
	r = policy_put_short(&line, "allow", "--allow", text, err);
	buf_put(&line, "", 1);
	return r < 0 ? r : policy_flat_line(&s->flat, (const char *)line.data, err);
}

void
policy_source_put(struct buf *b, const struct policy_source *s)
{
	if (s->text == NULL || s->is_more)
		policy_flat_put(b, &s->flat);
	else
		buf_put(b, s->text, s->len);
}

/* ---- from a file ---- */

static int
take_file(void *arg, const struct node *node, const char *path, struct err *err)
{
	struct policy_source *s = arg;

	(void)node;
	(void)path;
	(void)err;
	s->is_more = true;
	return 0;
}

static int
take_rule(void *arg, const struct node *rule, struct err *err)
{
	struct policy_source *s = arg;

	return policy_flat_rule(&s->flat, rule, err);
}

static int
take_part(void *arg, const struct node *key, const struct node *value, struct err *err)
{
	struct policy_source *s = arg;

	return policy_flat_part(&s->flat, key, value, err);
}

static int
take_text(void *arg, const char *text, size_t len, struct err *err)
{
	return policy_source_text(arg, text, len, err);
}

struct policy_reader
policy_source_reader(struct policy_source *s)
{
	return (struct policy_reader){ .arg = s, .file = take_file, .rule = take_rule, .part = take_part, .text = take_text,
	                               .hook = policy_any_hook, .may_cover = true };
}

int
policy_source_load(int dirfd, const char *path, struct policy_faults *faults,
                   struct buf *ret_text, struct err *err)
{
	OWN(policy_source_free) struct policy_source s;
	OWN(policy_freep) struct policy *p = NULL;
	const struct policy_reader reader = policy_source_reader(&s);
	int r;

	policy_source_init(&s);
	r = policy_load_file_all(dirfd, path, &reader, &p, faults, err);
	if (r < 0)
		return r;
	policy_source_put(ret_text, &s);
	return buf_failed(ret_text) ? err_set(err, E2BIG, "the policy is too large") : 0;
}
