/* profile_answers.c - remembers a person's answers about an agent, so that later runs start at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "cli/profile.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"

#define FOLDER "agents"
#define ANSWERS_MAX (16 * 1024)         /* bytes */

void
profile_answers_free(struct profile_answers *a)
{
	for (size_t i = 0; i < PROFILE_CHOICES_MAX; i++)
		free(TAKE(a->secrets[i]));
}

static char *
find_file(const char *name, struct err *err)
{
	OWN(freep) char *part = str_format(FOLDER "/%s.yaml", name);

	return part == NULL ? NULL : data_config_path(part, err);
}

static int
read_secrets(const struct node *node, struct profile_answers *a, struct err *err)
{
	if (node->kind != NODE_LIST || node->n > PROFILE_CHOICES_MAX)
		return node_err(err, node, "`secrets` is a list of at most %d names", PROFILE_CHOICES_MAX);
	for (size_t i = 0; i < node->n; i++) {
		if (node->items[i]->kind != NODE_SCALAR)
			return node_err(err, node->items[i], "the name of a secret is a text");
		a->secrets[i] = strdup(node->items[i]->text);
		if (a->secrets[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

static int
read_answers(const struct node *root, struct profile_answers *a, struct err *err)
{
	int r = root->kind == NODE_MAP ? 0 : node_err(err, root, "the answers about an agent are a map");

	for (size_t i = 0; r == 0 && i < root->n; i++) {
		const struct node *key = root->items[i], *value = root->values[i];

		if (strcmp(key->text, "secrets") == 0)
			r = read_secrets(value, a, err);
		else if (strcmp(key->text, "shown") == 0 && value->kind == NODE_SCALAR)
			snprintf(a->shown, sizeof(a->shown), "%s", value->text);
		else if (strcmp(key->text, "version") != 0)
			r = node_err(err, key, "there is no key '%.64s' here: it takes version, shown and secrets", key->text);
	}
	return r;
}

int
profile_answers_load(const char *name, struct profile_answers *ret_answers, struct err *err)
{
	OWN(profile_answers_free) struct profile_answers a = {0};
	OWN(freep) char *file = find_file(name, NULL), *text = NULL;
	OWN(node_freep) struct node *root = NULL;
	size_t len;
	int r;

	*ret_answers = a;
	if (file == NULL || access(file, F_OK) < 0)
		return 0;
	r = trust_read(TRUST_ANSWERS, file, ANSWERS_MAX, &text, &len, err);
	r = r == 0 ? node_parse(file, text, len, &root, err) : r;
	r = r == 0 ? read_answers(root, &a, err) : r;
	if (r < 0)
		return r;
	*ret_answers = a;
	a = (struct profile_answers){0};
	return 0;
}

/* A new file replaces the old one as a whole. */
static int
write_file(const char *file, const struct buf *b, struct err *err)
{
	OWN(freep) char *folder = strndup(file, (size_t)(strrchr(file, '/') - file));
	OWN(freep) char *draft = str_format("%s.new", strrchr(file, '/') + 1);
	OWN(freep) char *text = strndup((const char *)b->data, b->len);
	OWN(closep) int dir = -1;
	int r;

	if (folder == NULL || draft == NULL || text == NULL || buf_failed(b))
		return err_set(err, ENOMEM, "out of memory");
	dir = tree_open_made(folder, true, "set XDG_CONFIG_HOME", err);
	if (dir < 0)
		return dir;
	r = create_file_at(dir, draft, 0600, text, err);
	if (r == 0 && renameat(dir, draft, dir, strrchr(file, '/') + 1) < 0)
		r = err_errno(err, "cannot write '%s'", file);
	return r;
}

int
profile_answers_save(const char *name, const struct profile_answers *a, struct err *err)
{
	OWN(freep) char *file = find_file(name, err);
	OWN(buf_free) struct buf b = BUF(ANSWERS_MAX);

	if (file == NULL)
		return -ENOENT;
	buf_put_text(&b, "# What you answered about this agent: `cloister profile forget` removes it.\nversion: 1\nshown: ");
	node_put_quoted(&b, a->shown, strlen(a->shown));
	buf_put_text(&b, "\nsecrets: [");
	for (size_t i = 0; a->secrets[i] != NULL; i++) {
		buf_put_text(&b, i > 0 ? ", " : "");
		node_put_quoted(&b, a->secrets[i], strlen(a->secrets[i]));
	}
	buf_put_text(&b, "]\n");
	return write_file(file, &b, err);
}

int
profile_answers_forget(const char *name, struct err *err)
{
	OWN(freep) char *file = find_file(name, NULL);

	return file == NULL || unlink(file) == 0 || errno == ENOENT ? 0 : err_errno(err, "cannot remove '%s'", file);
}
