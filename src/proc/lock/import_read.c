/* import_read.c - reads the servers of other clients' files: .mcp.json, ~/.claude.json, .vscode/mcp.json. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "proc/lock/import.h"
#include "trust/trust.h"

#define TOKEN_END "_TOKEN"

/* ---- JSON with comments, as VS Code writes it ---- */

/* The end of the string that begins at AT. */
static char *
end_of_string(char *at, char *end)
{
	for (at++; at < end && *at != '"'; at++)
		at += *at == '\\' && at + 1 < end;
	return at < end ? at : end - 1;
}

/* Comments and commas before a bracket become blanks, so that positions stay. */
static void
blank_comments(char *text, size_t len)
{
	char *end = text + len, *comma = NULL;

	for (char *at = text; at < end; at++) {
		if (*at == '"') {
			at = end_of_string(at, end);
			comma = NULL;
		} else if (*at == '/' && at + 1 < end && (at[1] == '/' || at[1] == '*')) {
			const bool is_line = at[1] == '/';
			char *last = is_line ? memchr(at, '\n', (size_t)(end - at)) : memmem(at + 2, (size_t)(end - at - 2), "*/", 2);

			last = last == NULL ? end : is_line ? last : last + 2;
			memset(at, ' ', (size_t)(last - at));
			at = last - 1;
		} else if (*at == ',') {
			comma = at;
		} else if (!isspace((unsigned char)*at)) {
			if (comma != NULL && (*at == ']' || *at == '}'))
				*comma = ' ';
			comma = NULL;
		}
	}
}

/* ---- servers ---- */

static bool
has_segment(const char *name, const char *word)
{
	const size_t len = strlen(word);

	for (const char *at = name; *at != '\0'; at++)
		if ((at == name || !isalnum((unsigned char)at[-1])) && strncasecmp(at, word, len) == 0 &&
		    !isalnum((unsigned char)at[len]))
			return true;
	return false;
}

bool
import_is_credential(const char *name, const char *value)
{
	static const char *const words[] = { "token", "secret", "key", "apikey", "password", "passwd", "pat", "credential",
	                                     "credentials", "auth", "authorization", "bearer" };
	static const char *const prefixes[] = { "ghp_", "gho_", "ghs_", "github_pat_", "sk-", "sk_live_", "xoxb-", "xoxp-", "AKIA",
	                                        "glpat-", "Bearer ", "npm_", "AIza", "eyJ", "-----BEGIN" };

	if (*value == '\0')
		return false;
	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (strncmp(value, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (has_segment(name, words[i]))
			/* A path, or a switch, is no key. */
			return strlen(value) >= 8 && value[0] != '/' && strcasecmp(value, "disabled") != 0;
	return false;
}

static void
set_name(struct imported *server, const char *name)
{
	size_t n = 0;

	for (; *name != '\0' && n < POLICY_TOOLS_SERVER_MAX; name++)
		server->name[n++] = isalnum((unsigned char)*name) || *name == '_' || *name == '-' ?
		                    (char)tolower((unsigned char)*name) : '-';
	server->name[n] = '\0';
}

/* "${X}", "${env:X}": X; else NULL. */
static char *
reference_of(const char *value)
{
	const char *at = strncmp(value, "${env:", 6) == 0 ? value + 6 : strncmp(value, "${", 2) == 0 ? value + 2 : NULL;
	const size_t len = at != NULL ? strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") : 0;

	return len > 0 && (at[len] == '}' || strncmp(at + len, ":-", 2) == 0) ? strndup(at, len) : NULL;
}

static int
add_value(struct imported *server, const char *variable, const char *value, struct err *err)
{
	struct imported_value *at = &server->values[server->n_values];
	OWN(freep) char *reference = reference_of(value);
	const char *real = reference != NULL ? getenv(reference) : NULL;

	if (server->n_values == IMPORT_VALUES_MAX)
		return err_set(err, E2BIG, "the server '%s' has over %d variables", server->name, IMPORT_VALUES_MAX);
	if (strncmp(value, "Bearer ", 7) == 0)
		value += 7;
	at->variable = variable;
	at->value = reference != NULL ? real : value;
	at->in_file = reference == NULL;
	at->is_secret = reference != NULL ? import_is_credential(variable, real != NULL ? real : "a-reference") :
	                import_is_credential(variable, value);
	if (strncmp(value, "${input:", 8) == 0)
		*at = (struct imported_value){ .variable = variable, .is_secret = true };
	server->n_values++;
	return 0;
}

/* Of the headers, a client's bridge sends only the login. */
static int
read_url(struct imported *server, const json_t *node, struct err *err)
{
	const char *login = json_string_value(json_object_get(json_object_get(node, "headers"), "Authorization"));
	const char *at = strstr(server->url, "://");
	size_t len;

	if (at == NULL)
		return err_set(err, EINVAL, "the server '%s' has no valid URL", server->name);
	at += 3;
	len = strcspn(at, "/?#");
	snprintf(server->host, sizeof(server->host), "%.*s", (int)len, at);
	for (len = 0; server->name[len] != '\0' && len < sizeof(server->token) - sizeof(TOKEN_END); len++)
		server->token[len] = isalnum((unsigned char)server->name[len]) ? (char)toupper((unsigned char)server->name[len]) : '_';
	memcpy(server->token + len, TOKEN_END, sizeof(TOKEN_END));
	return login != NULL ? add_value(server, server->token, login, err) : 0;
}

static int
read_server(struct import *import, const char *name, const json_t *node, struct err *err)
{
	struct imported *server = &import->servers[import->n];
	const json_t *env = json_object_get(node, "env");
	const char *variable;
	json_t *value;
	int r = 0;

	if (import->n == POLICY_TOOLS_SERVERS_MAX)
		return err_set(err, E2BIG, "there are over %d servers", POLICY_TOOLS_SERVERS_MAX);
	set_name(server, name);
	server->command = json_string_value(json_object_get(node, "command"));
	server->args = json_object_get(node, "args");
	server->url = json_string_value(json_object_get(node, "url"));
	if (!policy_tools_is_server(server->name, strlen(server->name)) || (server->command == NULL) == (server->url == NULL))
		return err_set(err, EINVAL, "the server '%.64s' of '%s' has neither a command nor a URL", server->name, import->file);
	import->n++;
	if (server->url != NULL)
		return read_url(server, node, err);
	json_object_foreach((json_t *)(uintptr_t)env, variable, value)
		if (r == 0 && json_is_string(value))
			r = add_value(server, variable, json_string_value(value), err);
	return r;
}

static int
read_map(struct import *import, const json_t *map, struct err *err)
{
	const char *name;
	json_t *node;
	int r = 0;

	json_object_foreach((json_t *)(uintptr_t)map, name, node)
		if (r == 0 && json_is_object(node))
			r = read_server(import, name, node, err);
	return r;
}

int
import_read(const char *file, const char *folder, struct import *ret_import, struct err *err)
{
	OWN(freep) char *text = NULL;
	const json_t *project;
	size_t len;
	int r;

	*ret_import = (struct import){ .file = file };
	r = trust_read(TRUST_POLICY, file, IMPORT_FILE_MAX, &text, &len, err);
	if (r < 0)
		return r;
	blank_comments(text, len);
	r = canon_read(text, len, &ret_import->root, err);
	if (r < 0)
		return err_wrap(err, "'%s'", file);
	r = read_map(ret_import, json_object_get(ret_import->root, "mcpServers"), err);
	r = r == 0 ? read_map(ret_import, json_object_get(ret_import->root, "servers"), err) : r;
	project = json_object_get(json_object_get(ret_import->root, "projects"), folder);
	r = r == 0 ? read_map(ret_import, json_object_get(project, "mcpServers"), err) : r;
	return r < 0 || ret_import->n > 0 ? r : err_set(err, ENOENT, "'%s' names no servers", file);
}

void
import_free(struct import *import)
{
	json_decref(import->root);
	import->root = NULL;
}
