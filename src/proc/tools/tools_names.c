/* tools_names.c - the agent sees "server.tool", "server.prompt" and "mcp://server/URI": so no server can stand for another. */
#include <string.h>

#include "base/io.h"
#include "base/own.h"
#include "proc/tools/tools_worker.h"

#define RESOURCE "mcp://"               /* before "server/URI": rules are about what follows */

int
names_split(const char *name, char separator, const char **ret_name)
{
	const char *end;

	if (separator == '/' && strncmp(name, RESOURCE, strlen(RESOURCE)) != 0)
		return -1;
	name += separator == '/' ? strlen(RESOURCE) : 0;
	end = strchr(name, separator);
	for (size_t i = 0; end != NULL && i < gateway_tools->n_servers; i++) {
		const char *server = gateway_tools->servers[i].name;

		if (strlen(server) == (size_t)(end - name) && memcmp(server, name, strlen(server)) == 0) {
			*ret_name = end + 1;
			return (int)i;
		}
	}
	return -1;
}

json_t *
names_join(const struct policy_tools_server *server, char separator, const char *name)
{
	return json_sprintf("%s%s%c%s", separator == '/' ? RESOURCE : "", server->name, separator, name);
}

void
names_mark(const struct policy_tools_server *server, json_t *object, const char *key, char separator)
{
	const char *value = json_string_value(json_object_get(object, key));

	if (value != NULL)
		(void)json_object_set_new(object, key, names_join(server, separator, value));
}

/* A block of content: a link to a resource, or one as a whole. */
static void
mark_block(const struct policy_tools_server *server, json_t *block)
{
	const char *type = json_string_value(json_object_get(block, "type"));

	if (type == NULL)
		return;
	if (strcmp(type, "resource_link") == 0)
		names_mark(server, block, "uri", '/');
	else if (strcmp(type, "resource") == 0)
		names_mark(server, json_object_get(block, "resource"), "uri", '/');
}

void
names_mark_result(const struct policy_tools_server *server, json_t *result)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(result, "content"), i, one)
		mark_block(server, one);
	json_array_foreach(json_object_get(result, "contents"), i, one)
		names_mark(server, one, "uri", '/');
	json_array_foreach(json_object_get(result, "messages"), i, one)
		mark_block(server, json_object_get(one, "content"));
}
