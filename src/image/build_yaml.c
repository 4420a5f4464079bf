/* build_yaml.c - parses the small YAML form of a build into a plan.
 *
 * No variable is replaced in it: each word means itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/build_plan.h"
#include "image/build_words.h"
#include "policy/policy_yaml.h"

/* The commands by which packages are installed: BEFORE, the packages, BEHIND.  What would differ from one build to the
 * next, logs and caches with times in them, is removed in the same step. */
static const struct manager {
	const char *name, *before, *behind;
} managers[] = {
	{ "apt", "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends",
	  " && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/apt/*"
	  " /var/log/dpkg.log /var/log/alternatives.log /var/cache/ldconfig/aux-cache" },
	{ "apk", "apk add --no-cache", "" },
	{ "npm", "npm install --global --no-audit --no-fund --no-update-notifier", " && rm -rf \"$HOME/.npm\"" },
	{ "pip", "PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir --root-user-action=ignore"
	  " --disable-pip-version-check", "" },
};

struct writer {
	struct build_plan *plan;
	struct build_stage *stage;
};

static int
no_room(const struct node *node, struct err *err)
{
	return node_err(err, node, "it has too many steps or words, or there is too little memory");
}

static int
check_text(const struct node *node, const char *what, struct err *err)
{
	if (node->kind != NODE_SCALAR || node_is_null(node) || node->text[0] == '\0')
		return node_err(err, node, "%s must be a text", what);
	return 0;
}

/* As one word of a Dockerfile: single quotes, which have no escapes. */
static void
put_literal(struct buf *b, const char *text)
{
	buf_put_text(b, "'");
	for (; *text != '\0'; text++)
		if (*text == '\'')
			buf_put_text(b, "'\\''");
		else
			buf_put(b, text, 1);
	buf_put_text(b, "'");
}

static bool
add_literal(struct build_step *step, const char *text)
{
	OWN(buf_free) struct buf b = BUF(4 * BUILD_FILE_MAX);

	put_literal(&b, text);
	return !buf_failed(&b) && build_step_add_word(step, (const char *)b.data, b.len);
}

/* TEXT may be NULL. */
static bool
set_literal(char **ret_word, const char *text)
{
	OWN(buf_free) struct buf b = BUF(4 * BUILD_FILE_MAX);

	if (text == NULL)
		return true;
	put_literal(&b, text);
	*ret_word = buf_failed(&b) ? NULL : strndup((const char *)b.data, b.len);
	return *ret_word != NULL;
}

/* "KIND WORDS...", for people. */
static struct build_step *
add_step(struct writer *w, enum build_kind kind, const struct node *node, const char *text)
{
	OWN(buf_free) struct buf b = BUF(4 * BUILD_FILE_MAX);

	buf_put_text(&b, build_kind_names[kind]);
	buf_put_text(&b, " ");
	buf_put_text(&b, text);
	buf_put(&b, "", 1);
	return buf_failed(&b) ? NULL :
	       build_plan_add_step(w->plan, w->stage, kind, (unsigned)node->line, (const char *)b.data);
}

/* ---- members ---- */

static int
take_run_text(struct writer *w, const struct node *node, const char *command, struct err *err)
{
	struct build_step *step = add_step(w, BUILD_RUN, node, command);

	return step != NULL && build_step_add_word(step, command, strlen(command)) ? 0 : no_room(node, err);
}

/* Into a command of the shell, within single quotes. */
static bool
is_package(const char *name)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@/._+:=~^<>!,[]-";

	return name[0] != '-' && name[strspn(name, ok)] == '\0';
}

static int
take_manager(struct writer *w, const struct manager *m, const struct node *list, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(BUILD_FILE_MAX);
	int r = 0;

	if (list->kind != NODE_LIST || list->n == 0)
		return node_err(err, list, "%s must be a list of packages", m->name);
	buf_put_text(&b, m->before);
	for (size_t i = 0; r == 0 && i < list->n; i++) {
		r = check_text(list->items[i], "a package", err);
		if (r == 0 && !is_package(list->items[i]->text))
			r = node_err(err, list->items[i], "'%s' is not the name of a package", list->items[i]->text);
		if (r < 0)
			return r;
		buf_put_text(&b, " ");
		put_literal(&b, list->items[i]->text);
	}
	buf_put_text(&b, m->behind);
	buf_put(&b, "", 1);
	return buf_failed(&b) ? no_room(list, err) : take_run_text(w, list, (const char *)b.data, err);
}

static int
take_packages(struct writer *w, const struct node *map, struct err *err)
{
	int r = 0;

	if (map->kind != NODE_MAP)
		return node_err(err, map, "packages must be a map: apt, apk, npm or pip, and a list for each");
	w->plan->packages = map->n == 0 ? 0 : (unsigned)map->line;
	for (size_t i = 0; r == 0 && i < map->n; i++) {
		size_t m = 0;

		while (m < ARRAY_LEN(managers) && strcmp(managers[m].name, map->items[i]->text) != 0)
			m++;
		r = m == ARRAY_LEN(managers) ?
		    node_err(err, map->items[i], "there is no '%s': use apt, apk, npm or pip", map->items[i]->text) :
		    take_manager(w, &managers[m], map->values[i], err);
	}
	return r;
}

static int
take_file_member(const struct node *file, size_t i, const char **values, struct err *err)
{
	static const char *const names[] = { "from", "to", "owner", "mode" };

	for (size_t n = 0; n < ARRAY_LEN(names); n++)
		if (strcmp(file->items[i]->text, names[n]) == 0) {
			values[n] = file->values[i]->text;
			return check_text(file->values[i], names[n], err);
		}
	return node_err(err, file->items[i], "there is no '%s' here: use from, to, owner and mode", file->items[i]->text);
}

static int
take_file(struct writer *w, const struct node *file, struct err *err)
{
	const char *values[4] = {0};
	struct build_step *step;
	int r = 0;

	if (file->kind != NODE_MAP)
		return node_err(err, file, "a file must be a map: from, to, owner and mode");
	for (size_t i = 0; r == 0 && i < file->n; i++)
		r = take_file_member(file, i, values, err);
	if (r < 0)
		return r;
	if (values[0] == NULL || values[1] == NULL)
		return node_err(err, file, "a file needs from and to");
	step = add_step(w, BUILD_COPY, file, values[0]);
	if (step == NULL || !add_literal(step, values[0]) || !add_literal(step, values[1]) ||
	    !set_literal(&step->chown, values[2]) || !set_literal(&step->chmod, values[3]))
		return no_room(file, err);
	return 0;
}

typedef int take_member(struct writer *, const struct node *, struct err *);

static int
take_list(struct writer *w, const struct node *list, const char *what, take_member *take, struct err *err)
{
	int r = 0;

	if (list->kind != NODE_LIST)
		return node_err(err, list, "%s must be a list", what);
	for (size_t i = 0; r == 0 && i < list->n; i++)
		r = take(w, list->items[i], err);
	return r;
}

static int
take_files(struct writer *w, const struct node *node, struct err *err)
{
	return take_list(w, node, "files", take_file, err);
}

static int
take_run_one(struct writer *w, const struct node *node, struct err *err)
{
	int r = check_text(node, "a command", err);

	return r < 0 ? r : take_run_text(w, node, node->text, err);
}

static int
take_run(struct writer *w, const struct node *node, struct err *err)
{
	return take_list(w, node, "run", take_run_one, err);
}

/* "NAME=VALUE ...", for people. */
static struct build_step *
add_pairs(struct writer *w, enum build_kind kind, const struct node *map)
{
	OWN(buf_free) struct buf b = BUF(4 * BUILD_FILE_MAX);

	for (size_t i = 0; i < map->n; i++) {
		buf_put_text(&b, i == 0 ? "" : " ");
		buf_put_text(&b, map->items[i]->text);
		buf_put_text(&b, "=");
		if (map->values[i]->kind == NODE_SCALAR)
			put_literal(&b, map->values[i]->text);
	}
	buf_put(&b, "", 1);
	return buf_failed(&b) ? NULL : add_step(w, kind, map, (const char *)b.data);
}

static int
take_pairs(struct writer *w, enum build_kind kind, const struct node *map, const char *what, struct err *err)
{
	struct build_step *step;

	if (map->kind != NODE_MAP)
		return node_err(err, map, "%s must be a map of names and values", what);
	if (map->n == 0)
		return 0;
	step = add_pairs(w, kind, map);
	if (step == NULL)
		return no_room(map, err);
	for (size_t i = 0; i < map->n; i++) {
		const struct node *name = map->items[i], *value = map->values[i];

		if (value->kind != NODE_SCALAR)
			return node_err(err, value, "the value of '%s' must be a text", name->text);
		if (kind == BUILD_ENV && !build_var_name_ok(name->text, strlen(name->text)))
			return node_err(err, name, "'%s' is not the name of a variable", name->text);
		if (!add_literal(step, name->text) || !add_literal(step, value->text))
			return no_room(value, err);
	}
	return 0;
}

static int
take_env(struct writer *w, const struct node *node, struct err *err)
{
	return take_pairs(w, BUILD_ENV, node, "env", err);
}

static int
take_labels(struct writer *w, const struct node *node, struct err *err)
{
	return take_pairs(w, BUILD_LABEL, node, "labels", err);
}

static int
take_one(struct writer *w, enum build_kind kind, const struct node *node, const char *what, struct err *err)
{
	int r = check_text(node, what, err);
	struct build_step *step = r < 0 ? NULL : add_step(w, kind, node, node->text);

	if (r < 0)
		return r;
	return step != NULL && add_literal(step, node->text) ? 0 : no_room(node, err);
}

static int
take_workdir(struct writer *w, const struct node *node, struct err *err)
{
	return take_one(w, BUILD_WORKDIR, node, "workdir", err);
}

static int
take_user(struct writer *w, const struct node *node, struct err *err)
{
	return take_one(w, BUILD_USER, node, "user", err);
}

/* The words of a list, for people. */
static struct build_step *
add_words(struct writer *w, enum build_kind kind, const struct node *list)
{
	OWN(buf_free) struct buf b = BUF(4 * BUILD_FILE_MAX);

	for (size_t i = 0; i < list->n; i++) {
		buf_put_text(&b, i == 0 ? "" : " ");
		if (list->items[i]->kind == NODE_SCALAR)
			put_literal(&b, list->items[i]->text);
	}
	buf_put(&b, "", 1);
	return buf_failed(&b) ? NULL : add_step(w, kind, list, (const char *)b.data);
}

/* A text is for the shell, as in a Dockerfile; a list is the command itself. */
static int
take_command(struct writer *w, enum build_kind kind, const struct node *node, const char *what, struct err *err)
{
	struct build_step *step;
	int r = node->kind == NODE_LIST ? 0 : check_text(node, what, err);

	if (r < 0)
		return r;
	step = node->kind == NODE_LIST ? add_words(w, kind, node) : add_step(w, kind, node, node->text);
	if (step == NULL)
		return no_room(node, err);
	step->exec = node->kind == NODE_LIST;
	if (!step->exec)
		return build_step_add_word(step, node->text, strlen(node->text)) ? 0 : no_room(node, err);
	for (size_t i = 0; i < node->n; i++) {
		if (node->items[i]->kind != NODE_SCALAR)
			return node_err(err, node->items[i], "a word of %s must be a text", what);
		if (!build_step_add_word(step, node->items[i]->text, strlen(node->items[i]->text)))
			return no_room(node, err);
	}
	return 0;
}

static int
take_entrypoint(struct writer *w, const struct node *node, struct err *err)
{
	return take_command(w, BUILD_ENTRYPOINT, node, "entrypoint", err);
}

static int
take_cmd(struct writer *w, const struct node *node, struct err *err)
{
	return take_command(w, BUILD_CMD, node, "cmd", err);
}

/* In the order in which they are done, whatever their order in the file is.  That which seldom changes comes first,
 * and stays in the cache. */
static const struct {
	const char *name;
	take_member *take;
} members[] = {
	{ "env", take_env }, { "packages", take_packages }, { "workdir", take_workdir }, { "files", take_files },
	{ "run", take_run }, { "labels", take_labels }, { "user", take_user }, { "entrypoint", take_entrypoint },
	{ "cmd", take_cmd },
};

static int
check_names(const struct node *root, struct err *err)
{
	for (size_t i = 0; i < root->n; i++) {
		const char *name = root->items[i]->text;
		size_t m = 0;

		while (m < ARRAY_LEN(members) && strcmp(members[m].name, name) != 0)
			m++;
		if (m == ARRAY_LEN(members) && strcmp(name, "base") != 0)
			return node_err(err, root->items[i], "there is no '%s': use base, env, packages, workdir, files, run, "
			                "labels, user, entrypoint and cmd", name);
	}
	return 0;
}

static int
take_all(struct writer *w, const struct node *root, struct err *err)
{
	const struct node *base = root->kind != NODE_MAP ? NULL : node_get(root, "base");
	OWN(buf_free) struct buf literal = BUF(BUILD_FILE_MAX);
	int r;

	if (base == NULL)
		return node_err(err, root, "it needs a base: the image to begin with, or scratch");
	r = check_text(base, "base", err);
	if (r == 0)
		r = check_names(root, err);
	if (r < 0)
		return r;
	put_literal(&literal, base->text);
	buf_put(&literal, "", 1);
	w->stage = buf_failed(&literal) ? NULL :
	           build_plan_add_stage(w->plan, (unsigned)base->line, (const char *)literal.data);
	if (w->stage == NULL)
		return no_room(base, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(members); i++) {
		const struct node *value = node_get(root, members[i].name);

		if (value != NULL)
			r = members[i].take(w, value, err);
	}
	return r;
}

int
build_plan_yaml(const char *file, const char *text, size_t len, struct build_plan **ret_plan, struct err *err)
{
	OWN(build_plan_freep) struct build_plan *plan = calloc(1, sizeof(*plan));
	OWN(node_freep) struct node *root = NULL;
	struct writer w = { .plan = plan };
	int r;

	if (plan == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (len > BUILD_FILE_MAX)
		return err_set(err, EFBIG, "%s: it is over %u MiB", file, BUILD_FILE_MAX >> 20);
	plan->escape = '\\';
	r = node_parse(file, text, len, &root, err);
	if (r == 0)
		r = take_all(&w, root, err);
	if (r == 0)
		*ret_plan = TAKE(plan);
	return r;
}
