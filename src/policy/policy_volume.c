/* policy_volume.c - see policy_volume.h. */
#include "policy/policy_volume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_state.h"
#include "policy/policy_yaml.h"

_Static_assert(POLICY_VOLUME_PATH_MAX == POLICY_STATE_PATH_MAX, "policy_state_path_ok() checks the paths of volumes");

bool
policy_volume_name_ok(const char *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
	size_t len = strlen(name);

	return len > 0 && len <= POLICY_VOLUME_NAME_MAX && strchr("-_.", name[0]) == NULL && strspn(name, ok) == len;
}

/* NAME or NAME@LABEL, of LEN bytes. */
static int
parse_name(const char *text, size_t len, struct policy_volume *volume, struct err *err)
{
	const char *at = memchr(text, '@', len);
	const size_t n = at != NULL ? (size_t)(at - text) : len;
	const size_t rest = at != NULL ? len - n - 1 : 0;

	if (n <= POLICY_VOLUME_NAME_MAX)
		snprintf(volume->name, sizeof(volume->name), "%.*s", (int)n, text);
	if (!policy_volume_name_ok(volume->name))
		return err_set(err, EINVAL, "'%.*s' cannot be the name of a volume: use up to %d letters, digits, '-', '_' and '.'",
		               (int)(n < 100 ? n : 100), text, POLICY_VOLUME_NAME_MAX);
	if (at == NULL)
		return 0;
	if (rest <= POLICY_VOLUME_NAME_MAX)
		snprintf(volume->label, sizeof(volume->label), "%.*s", (int)rest, at + 1);
	return rest <= POLICY_VOLUME_NAME_MAX && policy_volume_name_ok(volume->label) ? 0 :
	       err_set(err, EINVAL, "'%.*s' cannot be the label of a snapshot: use up to %d letters, digits, '-', '_' and '.'",
	               (int)(rest < 100 ? rest : 100), at + 1, POLICY_VOLUME_NAME_MAX);
}

/* The path is TEXT up to ":ro" or ":rw". */
static int
parse_path(const char *text, struct policy_volume *volume, struct err *err)
{
	size_t len = strlen(text);
	bool writes;

	writes = len > 3 && strcmp(text + len - 3, ":rw") == 0;
	volume->writes = volume->label[0] == '\0' && !(len > 3 && strcmp(text + len - 3, ":ro") == 0);
	if (writes && volume->label[0] != '\0')
		return err_set(err, EINVAL, "'%s@%s' is a snapshot, which is read-only: remove :rw, or write to a clone of it "
		               "(`cloister volume clone %s@%s NEW`)", volume->name, volume->label, volume->name, volume->label);
	len -= len > 3 && (writes || strcmp(text + len - 3, ":ro") == 0) ? 3 : 0;
	len -= len > 1 && text[len - 1] == '/' ? 1 : 0;
	snprintf(volume->path, sizeof(volume->path), "%.*s", (int)(len <= POLICY_VOLUME_PATH_MAX ? len : 0), text);
	if (!policy_state_path_ok(volume->path) || volume->path[0] != '/')
		return err_set(err, EINVAL, "'%.*s' is not a plain path: give an absolute path of at most %d bytes, other than "
		               "'/' and without '.', '..' and '//'", (int)(len < 100 ? len : 100), text, POLICY_VOLUME_PATH_MAX);
	return 0;
}

int
policy_volume_parse(const char *text, struct policy_volume *ret_volume, struct err *err)
{
	struct policy_volume volume = {0};
	const char *colon = strchr(text, ':');
	int r;

	if (colon == NULL || colon[1] != '/')
		return err_set(err, EINVAL, "'%.100s' is not NAME:PATH[:MODE], with an absolute PATH and a MODE of ro or rw", text);
	r = parse_name(text, (size_t)(colon - text), &volume, err);
	r = r == 0 ? parse_path(colon + 1, &volume, err) : r;
	if (r == 0)
		*ret_volume = volume;
	return r;
}

int
policy_cache_parse(const char *text, struct policy_volume *ret_cache, struct err *err)
{
	static const char form[] = "'%.100s' is not NAME[@VERSION][:PATH]: a cache's name of up to %d letters, digits, '-', '_' and "
	                           "'.', a version of %d to %d of the digits 0 to 9 and a to f, and an absolute path";
	struct policy_volume cache = {0};
	const size_t all = strcspn(text, ":"), n = strcspn(text, "@:"), rest = n < all ? all - n - 1 : 0;
	int r = 0;

	snprintf(cache.name, sizeof(cache.name), "%.*s", (int)(n <= POLICY_CACHE_NAME_MAX ? n : 0), text);
	snprintf(cache.label, sizeof(cache.label), "%.*s", (int)(rest <= POLICY_VOLUME_LABEL_MAX ? rest : 0), text + n + (n < all));
	if (!policy_volume_name_ok(cache.name) || (n < all && strlen(cache.label) < POLICY_CACHE_VERSION_LEAST) ||
	    strspn(cache.label, "0123456789abcdef") != strlen(cache.label) || (text[all] == ':' && text[all + 1] != '/'))
		return err_set(err, EINVAL, form, text, POLICY_CACHE_NAME_MAX, POLICY_CACHE_VERSION_LEAST, POLICY_VOLUME_LABEL_MAX);
	if (text[all] == ':')
		r = parse_path(text + all + 1, &cache, err);
	cache.writes = false;
	if (r == 0)
		*ret_cache = cache;
	return r;
}

typedef int parser(const char *text, struct policy_volume *ret_volume, struct err *err);

static int
add(struct policy_volumes *volumes, size_t most, const struct node *node, parser *parse, struct err *err)
{
	const char *key = parse == policy_cache_parse ? "cache" : "volumes";
	struct policy_volume *volume = &volumes->at[volumes->n];
	struct err why = {0};

	if (node->kind != NODE_SCALAR)
		return node_err(err, node, "`%s` is a text, or a list of texts", key);
	if (volumes->n == most)
		return node_err(err, node, "a cell has at most %zu %s", most, parse == policy_cache_parse ? "caches" : "volumes");
	if (parse(node->text, volume, &why) < 0)
		return node_err(err, node, "%s", why.text);
	for (size_t i = 0; i < volumes->n; i++)
		if (strcmp(volumes->at[i].path, volume->path) == 0 && volume->path[0] != '\0')
			return node_err(err, node, "there are two at '%s'", volume->path);
		else if (parse == policy_cache_parse && strcmp(volumes->at[i].name, volume->name) == 0)
			return node_err(err, node, "the cache '%s' is there twice", volume->name);
	volumes->n++;
	return 0;
}

static int
read_all(const struct node *node, size_t most, parser *parse, struct policy_volumes *ret_volumes, struct err *err)
{
	OWN(freep) struct policy_volumes *found = calloc(1, sizeof(*found));
	int r = found == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	if (r == 0 && (node->kind != NODE_LIST || node->n == 0))
		r = add(found, most, node, parse, err);
	for (size_t i = 0; r == 0 && node->kind == NODE_LIST && i < node->n; i++)
		r = add(found, most, node->items[i], parse, err);
	if (r == 0)
		*ret_volumes = *found;
	return r;
}

int
policy_volumes_read(const struct node *node, struct policy_volumes *ret_volumes, struct err *err)
{
	return read_all(node, POLICY_VOLUMES_MAX, policy_volume_parse, ret_volumes, err);
}

int
policy_caches_read(const struct node *node, struct policy_volumes *ret_caches, struct err *err)
{
	return read_all(node, POLICY_CACHES_MAX, policy_cache_parse, ret_caches, err);
}
