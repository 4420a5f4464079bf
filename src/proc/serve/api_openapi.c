/* api_openapi.c - builds the OpenAPI document from the table of routes and the schemas of share/. */
#include <string.h>

#include "base/own.h"
#include "base/version.h"
#include "canon/canon.h"
#include "proc/serve/api.h"

/* share/openapi.schemas.json, included at build time. */
__asm__(".section .rodata.api_schemas, \"a\"\n"
        ".globl api_schemas\n"
        "api_schemas:\n"
        ".incbin \"share/openapi.schemas.json\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char api_schemas[];

static const struct {
	const char *name, *type, *text;
} parameters[] = {
	{ "all", "boolean", "Include ended ones." },
	{ "retired", "boolean", "Include retired ones." },
	{ "follow", "boolean", "Keep the connection open, and send new events as they happen." },
	{ "after", "string", "Only items after this one." },
	{ "limit", "integer", "The maximum number of items." },
	{ "grace", "string", "A time, such as 10s." },
	{ "stream", "string", "stdout or stderr." },
	{ "state", "string", "Only items in this state." },
	{ "parent", "string", "Only dispatches that this dispatch started." },
	{ "from", "string", "The hash of the version to compare." },
	{ "to", "string", "The hash of the version to compare it with." },
	{ "hash", "string", "Only this version." },
	{ "before", "integer", "Only items before this one." },
	{ "type", "string", "Only items of this type." },
	{ "pid", "integer", "Only records of this process, by its id in the cell." },
	{ "search", "string", "Only items that contain this text." },
	{ "buckets", "integer", "The maximum number of items." },
	{ "path", "string", "A path in the cell." },
	{ "recursive", "boolean", "Include the folders beneath." },
	{ "end", "boolean", "These are the last bytes." },
	{ "cell", "string", "A cell's id, its name or the beginning of its id." },
};

static json_t *
parameter(const char *name, size_t len, const char *in)
{
	const char *type = "string", *text = "";

	for (size_t i = 0; i < ARRAY_LEN(parameters); i++) {
		if (strlen(parameters[i].name) == len && memcmp(parameters[i].name, name, len) == 0) {
			type = parameters[i].type;
			text = parameters[i].text;
		}
	}
	return json_pack("{s:s%, s:s, s:b, s:s, s:{s:s}}", "name", name, len, "in", in, "required",
	                 strcmp(in, "path") == 0, "description", text, "schema", "type", type);
}

static json_t *
all_parameters(const struct api_route *route)
{
	json_t *list = json_array();

	for (const char *at = strchr(route->path, '{'); at != NULL; at = strchr(at, '{')) {
		size_t len = strcspn(++at, "*}");

		json_array_append_new(list, parameter(at, len, "path"));
	}
	for (const char *at = route->query; at != NULL && *at != '\0';) {
		size_t len = strcspn(at, " ");

		json_array_append_new(list, parameter(at, len, "query"));
		at += len + strspn(at + len, " ");
	}
	return list;
}

static json_t *
schema_ref(const char *name)
{
	return json_pack("{s:s++}", "$ref", "#/components/schemas/", name, "");
}

/* A schema's name, or a media type: then the content is some text. */
static json_t *
content(const char *what)
{
	if (strchr(what, '/') == NULL)
		return json_pack("{s:{s:o}}", "application/json", "schema", schema_ref(what));
	if (strcmp(what, "text/event-stream") == 0)
		return json_pack("{s:{s:{s:s}}, s:{s:{s:s}}}", what, "schema", "type", "string",
		                 "application/x-ndjson", "schema", "type", "string");
	if (strcmp(what, "application/json") == 0)
		return json_pack("{s:{s:{s:s}}}", what, "schema", "type", "object");
	return json_pack("{s:{s:{s:s, s:s}}}", what, "schema", "type", "string", "format",
	                 strcmp(what, "application/octet-stream") == 0 ? "binary" : "text");
}

static json_t *
operation(const struct api_route *route)
{
	char status[8];
	json_t *answer, *op, *roles = json_array();

	snprintf(status, sizeof(status), "%u", route->status);
	answer = json_pack("{s:s}", "description", "It went well.");
	if (route->answer != NULL)
		json_object_set_new(answer, "content", content(route->answer));
	if ((route->roles & SERVE_OPERATOR) != 0)
		json_array_append_new(roles, json_string("operator"));
	if ((route->roles & SERVE_AGENT) != 0)
		json_array_append_new(roles, json_string("agent"));
	if ((route->roles & SERVE_GUEST) != 0)
		json_array_append_new(roles, json_string("guest"));
	op = json_pack("{s:s, s:s, s:o, s:o, s:{s:o, s:{s:s, s:o}}}", "operationId", route->id,
	               "summary", route->summary, "parameters", all_parameters(route),
	               "x-cloister-roles", roles, "responses", status, answer, "default",
	               "description", "It did not.", "content", content("Error"));
	if (route->body != NULL) {
		bool may = route->body[0] == '?';

		json_object_set_new(op, "requestBody", json_pack("{s:b, s:o}", "required", !may, "content",
		                                                 content(route->body + may)));
	}
	return op;
}

/* "{path*}" becomes "{path}". */
static void
add_path(json_t *paths, const struct api_route *route)
{
	char path[128], method[16];
	json_t *item;
	size_t n = 0;

	for (const char *at = route->path; *at != '\0' && n + 1 < sizeof(path); at++)
		if (*at != '*')
			path[n++] = *at;
	path[n] = '\0';
	for (n = 0; route->method[n] != '\0' && n + 1 < sizeof(method); n++)
		method[n] = (char)(route->method[n] | 0x20);
	method[n] = '\0';
	item = json_object_get(paths, path);
	if (item == NULL) {
		item = json_object();
		json_object_set_new(paths, path, item);
	}
	json_object_set_new(item, method, operation(route));
}

json_t *
api_openapi_document(unsigned role)
{
	json_t *paths = json_object();

	for (const struct api_route *route = api_routes(); route->method != NULL; route++)
		if ((route->roles & role) != 0)
			add_path(paths, route);
	return json_pack("{s:s, s:{s:s, s:s, s:s, s:{s:s}}, s:[{s:s}], s:o, s:{s:o, s:{s:{s:s, s:s}}}, s:[{}, {s:[]}]}",
	                 "openapi", "3.0.3", "info", "title", "cloister", "version", CLOISTER_VERSION,
	                 "description", "Runs AI agents in throwaway cells.", "license", "name", "see LICENSE",
	                 "servers", "url", "/", "paths", paths,
	                 "components", "schemas", canon_value(api_schemas, strlen(api_schemas)),
	                 "securitySchemes", "token", "type", "http", "scheme", "bearer",
	                 "security", "token");
}

int
api_openapi(struct api_call *c)
{
	c->answer = api_openapi_document(c->q->role);
	return 0;
}
