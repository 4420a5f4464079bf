/* profile_read.c - reads a profile from YAML. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/tree.h"
#include "policy/policy.h"
#include "policy/policy_load.h"
#include "policy/policy_yaml.h"
#include "profile/profile.h"
#include "profile/profile_parts.h"

const char *const profile_limit_names[PROFILE_LIMITS] = { "memory", "cpus", "pids", "time", "disk", "io" };

/* `npm install -g PACKAGE` */
static const struct { const char *name, *words; } tools[PROFILE_TOOLS] = {
	[PROFILE_NPM] = { "npm", "npm install -g" },
	[PROFILE_UV] = { "uv", "uv tool install" },
	[PROFILE_PIPX] = { "pipx", "pipx install" },
	[PROFILE_URL] = { "url", "see" },
};

bool
profile_name_ok(const char *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t len = strlen(name);

	return len > 0 && len <= PROFILE_NAME_MAX && strspn(name, ok) == len && isalnum((unsigned char)name[0]);
}

void
profile_free(struct profile *p)
{
	if (p == NULL)
		return;
	free(p->about);
	free(p->program);
	free(p->package);
	free(p->image);
	strv_free(p->args);
	strv_free(p->env);
	strv_free(p->allow);
	free(p->allow_lines);
	strv_free(p->keep);
	strv_free(p->read);
	for (size_t i = 0; i < p->n_secrets; i++)
		strv_free(p->secrets[i]);
	for (size_t i = 0; i < PROFILE_LIMITS; i++)
		free(p->limits[i]);
	profile_free_mcp(&p->mcp);
	free(p->login.file);
	free(p->login.secret);
	free(p->login.expires);
	strv_free(p->login.allow);
	free(p->login.allow_lines);
	strv_free(p->login.env);
	free(p);
}

char *
profile_install_words(const struct profile *p)
{
	return p->package == NULL ? NULL : str_format("%s %s", tools[p->tool].words, p->package);
}

/* ---- texts and lists ---- */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

int
profile_read_text(const struct node *node, const char *what, char **ret_text, struct err *err)
{
	if (node->kind != NODE_SCALAR || node->text[0] == '\0' || strlen(node->text) > PROFILE_TEXT_MAX ||
	    strpbrk(node->text, "\n\t") != NULL)
		return node_err(err, node, "%s is a line of text", what);
	free(*ret_text);
	*ret_text = strdup(node->text);
	return *ret_text == NULL ? no_memory(err) : 0;
}

int
profile_read_list(const struct node *node, const char *what, profile_check *check, char ***ret_list, struct err *err)
{
	OWN(strv_freep) char **list = NULL;
	int r = 0;

	if (node->kind != NODE_LIST || node->n > PROFILE_LIST_MAX)
		return node_err(err, node, "%s is a list of at most %d items", what, PROFILE_LIST_MAX);
	list = calloc(node->n + 1, sizeof(*list));
	if (list == NULL)
		return no_memory(err);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		r = profile_read_text(node->items[i], "an item of the list", &list[i], err);
		r = r == 0 && check != NULL ? check(node->items[i], err) : r;
	}
	if (r == 0)
		*ret_list = TAKE(list);
	return r;
}

/* ---- keys ---- */

static int
read_version(struct profile *p, const struct node *node, struct err *err)
{
	(void)p;
	return node->kind == NODE_SCALAR && strcmp(node->text, "1") == 0 ? 0 :
	       node_err(err, node, "`version` is 1");
}

static int
read_about(struct profile *p, const struct node *node, struct err *err)
{
	return profile_read_text(node, "`about`", &p->about, err);
}

static int
read_program(struct profile *p, const struct node *node, struct err *err)
{
	int r = profile_read_text(node, "`program`", &p->program, err);

	if (r == 0 && p->program[0] != '/' && (strchr(p->program, '/') != NULL || p->program[0] == '-'))
		return node_err(err, node, "`program` is the name of a command, or an absolute path");
	return r;
}

static int
read_install(struct profile *p, const struct node *node, struct err *err)
{
	if (node->kind != NODE_MAP || node->n != 1)
		return node_err(err, node, "`install` has one of the keys npm, uv, pipx and url");
	for (size_t i = 0; i < PROFILE_TOOLS; i++) {
		if (strcmp(node->items[0]->text, tools[i].name) != 0)
			continue;
		p->tool = (enum profile_tool)i;
		return profile_read_text(node->values[0], "the package", &p->package, err);
	}
	return node_err(err, node->items[0], "there is no key '%.64s' in `install`: it takes npm, uv, pipx or url",
	                node->items[0]->text);
}

static int
read_args(struct profile *p, const struct node *node, struct err *err)
{
	return profile_read_list(node, "`args`", NULL, &p->args, err);
}

static bool
is_variable(const char *name)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

	return name[0] != '\0' && name[strspn(name, ok)] == '\0' && !isdigit((unsigned char)name[0]);
}

int
profile_read_env(const struct node *node, char ***ret_env, struct err *err)
{
	OWN(strv_freep) char **env = NULL;

	if (node->kind != NODE_MAP || node->n > PROFILE_LIST_MAX)
		return node_err(err, node, "`env` is a map of at most %d variables", PROFILE_LIST_MAX);
	env = calloc(node->n + 1, sizeof(*env));
	if (env == NULL)
		return no_memory(err);
	for (size_t i = 0; i < node->n; i++) {
		const struct node *value = node->values[i];

		if (!is_variable(node->items[i]->text))
			return node_err(err, node->items[i], "'%.64s' cannot be the name of a variable", node->items[i]->text);
		if (value->kind != NODE_SCALAR || strlen(value->text) > PROFILE_TEXT_MAX)
			return node_err(err, value, "the value of a variable is a text");
		env[i] = str_format("%s=%s", node->items[i]->text, value->text);
		if (env[i] == NULL)
			return no_memory(err);
	}
	*ret_env = TAKE(env);
	return 0;
}

static int
read_env(struct profile *p, const struct node *node, struct err *err)
{
	return profile_read_env(node, &p->env, err);
}

static int
check_allow(const struct node *item, struct err *err)
{
	OWN(policy_freep) struct policy *policy = NULL;
	struct err why = {0};

	return policy_add_short(&policy, item->text, &why) == 0 ? 0 : node_err(err, item, "%s", why.text);
}

static int
read_rules(const struct node *node, char ***ret_rules, size_t **ret_lines, struct err *err)
{
	int r = profile_read_list(node, "`allow`", check_allow, ret_rules, err);

	if (r < 0)
		return r;
	*ret_lines = calloc(node->n + 1, sizeof(**ret_lines));
	if (*ret_lines == NULL)
		return no_memory(err);
	for (size_t i = 0; i < node->n; i++)
		(*ret_lines)[i] = node->items[i]->line;
	return 0;
}

static int
read_allow(struct profile *p, const struct node *node, struct err *err)
{
	return read_rules(node, &p->allow, &p->allow_lines, err);
}

static int
read_choice(struct profile *p, const struct node *node, struct err *err)
{
	const struct node single = { .kind = NODE_LIST, .file = node->file, .line = node->line,
	                             .column = node->column, .items = (struct node *[]){ (struct node *)(uintptr_t)node },
	                             .n = 1 };
	char **names = NULL;
	int r = profile_read_list(node->kind == NODE_LIST ? node : &single, "a choice", NULL, &names, err);

	if (r < 0)
		return r;
	p->secrets[p->n_secrets++] = names;
	return names[0] != NULL ? 0 : node_err(err, node, "a choice of secrets has at least one name");
}

static int
read_secrets(struct profile *p, const struct node *node, struct err *err)
{
	int r = 0;

	if (node->kind != NODE_LIST || node->n > PROFILE_CHOICES_MAX)
		return node_err(err, node, "`secrets` is a list of at most %d names, or lists of alternatives",
		                PROFILE_CHOICES_MAX);
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_choice(p, node->items[i], err);
	return r;
}

/* ---- the home folder ---- */

static int
check_path(const struct node *item, struct err *err)
{
	const char *path = item->text;
	size_t len;

	for (const char *part = path; part != NULL; part = part[len] == '/' ? part + len + 1 : NULL) {
		len = strcspn(part, "/");
		if (len == 0 || len > 128 || (len == 1 && part[0] == '.') || (len == 2 && strncmp(part, "..", 2) == 0))
			return node_err(err, item, "'%.64s' is not a path in the home folder, such as .config/agent", path);
	}
	return strlen(path) <= PROFILE_PATH_MAX && path[0] != '~' ? 0 :
	       node_err(err, item, "'%.64s' is not a path in the home folder: leave out ~/, and use at most %d bytes",
	                path, PROFILE_PATH_MAX);
}

/* The first path of LIST that is PATH or contains it, except the one at SELF; NULL if there is none. */
static const char *
find_around(char *const *list, const char *path, const char *self)
{
	for (; list != NULL && *list != NULL; list++)
		if (*list != self && tree_is_beneath(path, *list))
			return *list;
	return NULL;
}

/* An agent could replace the inner folder by a link. */
static int
check_overlap(const struct profile *p, const struct node *node, struct err *err)
{
	for (char **k = p->keep; k != NULL && *k != NULL; k++)
		if (find_around(p->keep, *k, *k) != NULL || find_around(p->read, *k, NULL) != NULL)
			return node_err(err, node, "'%.64s' is in another folder of `keep` or `read`: name only one of them", *k);
	for (char **k = p->read; k != NULL && *k != NULL; k++)
		if (find_around(p->read, *k, *k) != NULL)
			return node_err(err, node, "'%.64s' is in another folder of `read`: name only one of them", *k);
	return 0;
}

static int
read_home(struct profile *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "keep", "read", NULL };
	int r = node->kind == NODE_MAP ? 0 : node_err(err, node, "`home` has the keys keep and read");

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		if (strcmp(node->items[i]->text, names[0]) == 0)
			r = profile_read_list(node->values[i], "`keep`", check_path, &p->keep, err);
		else if (strcmp(node->items[i]->text, names[1]) == 0)
			r = profile_read_list(node->values[i], "`read`", check_path, &p->read, err);
		else
			r = policy_read_unknown(node->items[i], names, "in `home`", err);
	}
	return r == 0 ? check_overlap(p, node, err) : r;
}

/* ---- limits ---- */

static int
check_limit(enum profile_limit which, const char *text, struct err *err)
{
	uint64_t n;

	switch (which) {
	case PROFILE_CPUS: return num_parse_milli(text, &n, err);
	case PROFILE_PIDS: return num_parse_count(text, 1, 4194304, &n, err);
	case PROFILE_TIME: return num_parse_duration(text, &n, err);
	default:           return num_parse_size(text, &n, err);
	}
}

static int
read_limit(struct profile *p, const struct node *key, const struct node *value, struct err *err)
{
	static const char *names[PROFILE_LIMITS + 1];
	struct err why = {0};
	int r;

	for (size_t i = 0; i < PROFILE_LIMITS; i++) {
		names[i] = profile_limit_names[i];
		if (strcmp(key->text, profile_limit_names[i]) != 0)
			continue;
		r = profile_read_text(value, "a limit", &p->limits[i], err);
		if (r == 0 && check_limit((enum profile_limit)i, p->limits[i], &why) < 0)
			return node_err(err, value, "%s", why.text);
		return r;
	}
	return policy_read_unknown(key, names, "in `limits`", err);
}

static int
read_limits(struct profile *p, const struct node *node, struct err *err)
{
	int r = node->kind == NODE_MAP ? 0 : node_err(err, node, "`limits` is a map, such as {memory: 4G}");

	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_limit(p, node->items[i], node->values[i], err);
	return r;
}

static int
read_nested(struct profile *p, const struct node *node, struct err *err)
{
	return node_is_bool(node, &p->nested) ? 0 : node_err(err, node, "`nested` is true or false");
}

static int
read_image(struct profile *p, const struct node *node, struct err *err)
{
	return profile_read_text(node, "`image`", &p->image, err);
}

static int
read_login(struct profile *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "file", "secret", "allow", "env", "expires", NULL };
	struct profile_login *l = &p->login;
	int r = node->kind == NODE_MAP ? 0 : node_err(err, node, "`login` has the keys file and secret");

	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];

		if (strcmp(key->text, names[0]) == 0) {
			r = profile_read_text(value, "`file`", &l->file, err);
			r = r == 0 ? check_path(value, err) : r;
		} else if (strcmp(key->text, names[1]) == 0) {
			r = profile_read_text(value, "`secret`", &l->secret, err);
		} else if (strcmp(key->text, names[2]) == 0) {
			r = read_rules(value, &l->allow, &l->allow_lines, err);
		} else if (strcmp(key->text, names[3]) == 0) {
			r = profile_read_env(value, &l->env, err);
		} else if (strcmp(key->text, names[4]) == 0) {
			r = profile_read_text(value, "`expires`", &l->expires, err);
		} else {
			r = policy_read_unknown(key, names, "in `login`", err);
		}
	}
	return r == 0 && (l->file == NULL || l->secret == NULL) ? node_err(err, node, "`login` has the keys file and secret") : r;
}

/* ---- the whole ---- */

static const struct {
	const char *name;
	int (*read)(struct profile *p, const struct node *node, struct err *err);
} keys[] = {
	{ "version", read_version }, { "about", read_about }, { "program", read_program },
	{ "install", read_install }, { "args", read_args }, { "env", read_env }, { "allow", read_allow },
	{ "secrets", read_secrets }, { "home", read_home }, { "limits", read_limits },
	{ "nested", read_nested }, { "image", read_image }, { "mcp", profile_read_mcp },
	{ "login", read_login },
};

static int
read_key(struct profile *p, const struct node *key, const struct node *value, struct err *err)
{
	const char *names[ARRAY_LEN(keys) + 1];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (strcmp(key->text, keys[i].name) == 0)
			return keys[i].read(p, value, err);
		names[i] = keys[i].name;
	}
	names[ARRAY_LEN(keys)] = NULL;
	return policy_read_unknown(key, names, "in a profile", err);
}

int
profile_read(const char *file, const char *text, size_t len, struct profile **ret_profile, struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(profile_freep) struct profile *p = calloc(1, sizeof(*p));
	int r = p == NULL ? no_memory(err) : node_parse(file, text, len, &root, err);

	if (r == 0 && root->kind != NODE_MAP)
		r = node_err(err, root, "a profile is a map, with the key program");
	for (size_t i = 0; r == 0 && i < root->n; i++)
		r = read_key(p, root->items[i], root->values[i], err);
	if (r == 0 && p->program == NULL)
		r = node_err(err, root, "a profile has the key program");
	if (r == 0)
		*ret_profile = TAKE(p);
	return r;
}
