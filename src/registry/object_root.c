/* object_root.c - the root file system of an agent's cells. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "registry/object_parts.h"

#define IMAGE_MAX 1024                  /* bytes of a reference to an image */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static int
check_image(const struct node *node, const char *text, struct err *err)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			len = 0;
	return len > 0 && len <= IMAGE_MAX ? 0 :
	       node_err(err, node, "an image has a name such as debian:12, without spaces");
}

static int
check_capability(const struct node *node, const char *text, struct err *err)
{
	struct registry_ref ref;
	struct err why = {0};

	return registry_ref_parse(text, false, &ref, &why) < 0 ? node_err(err, node, "%s", why.text) : 0;
}

static const struct {
	const char *name;
	int (*check)(const struct node *node, const char *text, struct err *err);
} named[] = {
	{ "image", check_image }, { "capability", check_capability },
};

static int
take_named(size_t i, const struct node *node, const char *text, json_t **ret_value, struct err *err)
{
	int r = named[i].check(node, text, err);

	if (r < 0)
		return r;
	*ret_value = json_pack("{s:s}", named[i].name, text);
	return *ret_value == NULL ? no_memory(err) : 0;
}

/* "host", or "image:debian:12". */
static int
read_word(const struct node *node, json_t **ret_value, struct err *err)
{
	static const char *const words[] = { "host", "none", "minimal" };
	const char *text = NULL;
	int r = object_read_text(node, "a root", IMAGE_MAX + 16, &text, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(text, words[i]) == 0) {
			*ret_value = json_string(text);
			return *ret_value == NULL ? no_memory(err) : 0;
		}
	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		size_t len = strlen(named[i].name);

		if (strncmp(text, named[i].name, len) == 0 && text[len] == ':')
			return take_named(i, node, text + len + 1, ret_value, err);
	}
	return node_err(err, node, "`root` is host, none, minimal, {image: debian:12} or {capability: NAME}");
}

int
object_read_root(const struct node *node, json_t **ret_value, struct err *err)
{
	const char *text = NULL;
	int r;

	if (node == NULL || node_is_null(node)) {
		*ret_value = json_null();
		return 0;
	}
	if (node->kind != NODE_MAP)
		return read_word(node, ret_value, err);
	for (size_t i = 0; i < ARRAY_LEN(named); i++) {
		const struct node *value = node_get(node, named[i].name);

		if (value == NULL || node->n != 1)
			continue;
		r = object_read_text(value, "a name", IMAGE_MAX, &text, err);
		return r < 0 ? r : take_named(i, value, text, ret_value, err);
	}
	return node_err(err, node, "`root` is host, none, minimal, {image: debian:12} or {capability: NAME}");
}
