/* policy_tools.c - facts about a policy's `tools`: see policy_tools.h. */
#include "policy/policy_tools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"
#include "policy/policy_tools_parts.h"
#include "policy/policy_yaml.h"

const char *const policy_tool_hints[POLICY_TOOL_N_HINTS] = { "read_only", "destructive", "idempotent", "open_world" };
const char *const policy_tools_injections[POLICY_INJECTIONS + 1] = { "off", "flag", "ask", NULL };

const struct policy_tools *
policy_tools_of(const struct policy *p)
{
	while (p != NULL && p->tools == NULL)
		p = p->within;
	return p != NULL ? p->tools : NULL;
}

const struct policy_tools_server *
policy_tools_server(const struct policy_tools *tools, const char *name, size_t len)
{
	for (size_t i = 0; i < tools->n_servers; i++)
		if (strlen(tools->servers[i].name) == len && memcmp(tools->servers[i].name, name, len) == 0)
			return &tools->servers[i];
	return NULL;
}

static int
compare_tool(const void *name, const void *tool)
{
	return strcmp(name, ((const struct policy_tool *)tool)->name);
}

const struct policy_tool *
policy_tools_locked(const struct policy_tools *tools, const char *name)
{
	return tools->n_locked == 0 ? NULL :
	       bsearch(name, tools->locked, tools->n_locked, sizeof(*tools->locked), compare_tool);
}

int
policy_tools_compare_pins(const struct policy_tools_pin *a, const struct policy_tools_pin *b)
{
	int differ = strcmp(a->server, b->server);

	return differ != 0 ? differ : strcmp(a->file, b->file);
}

const struct policy_tools_pin *
policy_tools_pins(const struct policy_tools *tools, const char *server, size_t *ret_n)
{
	size_t first = 0, end;

	while (first < tools->n_pins && strcmp(tools->pins[first].server, server) != 0)
		first++;
	for (end = first; end < tools->n_pins && strcmp(tools->pins[end].server, server) == 0;)
		end++;
	*ret_n = end - first;
	return end > first ? &tools->pins[first] : NULL;
}

bool
policy_tools_is_hash(const char *text)
{
	return strlen(text) == POLICY_TOOLS_HASH && strspn(text, "0123456789abcdef") == POLICY_TOOLS_HASH;
}

static bool
is_made_of(const char *name, size_t len, size_t max, const char *letters)
{
	for (size_t i = 0; i < len; i++)
		if (name[i] == '\0' || strchr(letters, name[i]) == NULL)
			return false;
	return len > 0 && len <= max;
}

bool
policy_tools_is_server(const char *name, size_t len)
{
	return is_made_of(name, len, POLICY_TOOLS_SERVER_MAX, "abcdefghijklmnopqrstuvwxyz0123456789_-");
}

bool
policy_tools_is_tool(const char *name, size_t len)
{
	return is_made_of(name, len, POLICY_TOOLS_TOOL_MAX, "abcdefghijklmnopqrstuvwxyz"
	                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-");
}

int
policy_tools_path(const char *text, const char *folder, const char *home, char *ret_path, size_t size, struct err *err)
{
	bool of_home = text[0] == '~', alone = strcmp(text, ".") == 0;
	const char *rest = of_home ? text + 1 : text;
	int n;

	if (text[0] == '/')
		n = snprintf(ret_path, size, "%s", text);
	else
		n = snprintf(ret_path, size, "%s%s%s", of_home ? home : folder, of_home || alone ? "" : "/", alone ? "" : rest);
	return n >= 0 && (size_t)n < size ? 0 : err_set(err, ENAMETOOLONG, "the path '%.64s' is too long", text);
}

/* ---- checks, of what was read and of what a message holds ---- */

/* No part of it may lead elsewhere, or mean another path to one who compares texts. */
static bool
is_plain_path(const char *path)
{
	const char *at = path;

	if (strcmp(path, ".") == 0 || strcmp(path, "~") == 0 || strcmp(path, "/") == 0)
		return true;
	at += path[0] == '/' ? 1 : strncmp(path, "~/", 2) == 0 ? 2 : 0;
	if (*at == '~')
		return false;
	for (;;) {
		size_t n = strcspn(at, "/");

		if (n == 0 || (n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		if (at[n] == '\0')
			return true;
		at += n + 1;
	}
}

static int
check_paths(const struct policy_list *paths, struct err *err)
{
	for (size_t i = 0; i < paths->n; i++)
		if (!is_plain_path(paths->at[i]))
			return err_set(err, EINVAL, "'%.64s' is not a plain path: write /srv/docs, ~/docs, docs or ., without "
			               "'..' and a slash at the end", paths->at[i]);
	return 0;
}

static int
check_env(const struct policy_list *env, struct err *err)
{
	for (size_t i = 0; i < env->n; i++) {
		size_t n = strcspn(env->at[i], "=");
		bool digit = env->at[i][0] >= '0' && env->at[i][0] <= '9';

		if (env->at[i][n] == '\0' || digit || !is_made_of(env->at[i], n, 256, "abcdefghijklmnopqrstuvwxyz"
		                                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"))
			return err_set(err, EINVAL, "'%.64s' is not the name of a variable", env->at[i]);
	}
	return 0;
}

static int
check_wasm(const char *wasm, struct err *err)
{
	const size_t n = strlen(POLICY_TOOLS_CAPABILITY "sha256:");

	if (strncmp(wasm, POLICY_TOOLS_CAPABILITY, strlen(POLICY_TOOLS_CAPABILITY)) != 0)
		return check_paths(&(struct policy_list){ &wasm, 1 }, err);
	return strncmp(wasm, POLICY_TOOLS_CAPABILITY "sha256:", n) == 0 && policy_tools_is_hash(wasm + n) ? 0 :
	       err_set(err, EINVAL, "'%.64s' is not a capability: capability:sha256: and 64 digits", wasm);
}

static int
check_url(const struct policy_tools_server *s, struct err *err)
{
	const char *host = strstr(s->url, "://");
	size_t scheme = host != NULL ? (size_t)(host - s->url) : 0;

	if (!(scheme == 5 && strncmp(s->url, "https", 5) == 0) && !(scheme == 4 && strncmp(s->url, "http", 4) == 0))
		return err_set(err, EINVAL, "'%.64s' is not the URL of a server: https://mcp.example.com/mcp", s->url);
	host += 3;
	if (strcspn(host, "/?#") == 0 || strpbrk(host, "@#\\ \t\n") != NULL)
		return err_set(err, EINVAL, "the URL of a server has a host, and neither a user nor a '#': its token is a secret "
		               "of `policy`");
	return 0;
}

int
policy_tools_check_server(const struct policy_tools_server *s, const char **ret_member, struct err *err)
{
	int r;

	*ret_member = NULL;
	if ((s->url != NULL) + (s->wasm != NULL) + (s->image != NULL || s->n_command > 0) != 1)
		return err_set(err, EINVAL, "a server has a `command`, an `image` (and perhaps a command in it), a `wasm` module, or "
		               "a `url`");
	if (s->url != NULL && (s->read.n > 0 || s->write.n > 0 || s->folder != NULL || s->env.n > 0))
		return err_set(err, EINVAL, "a server with a `url` runs elsewhere: leave `env`, `read`, `write` and `folder` out");
	*ret_member = "command";
	if (s->n_command > 0 && s->command[0][0] == '\0')
		return err_set(err, EINVAL, "a command begins with a program");
	*ret_member = "url";
	if (s->url != NULL && (r = check_url(s, err)) < 0)
		return r;
	*ret_member = "wasm";
	if (s->wasm != NULL && (r = check_wasm(s->wasm, err)) < 0)
		return r;
	*ret_member = "per";
	if (s->wasm != NULL && !s->per_call)
		return err_set(err, EINVAL, "a WASI module is run for each call: leave `per` out");
	*ret_member = "image";
	if (s->image != NULL && (s->image[0] == '\0' || s->image[0] == '-' || strpbrk(s->image, " \t\n") != NULL))
		return err_set(err, EINVAL, "'%.64s' is not the name of an image", s->image);
	*ret_member = "env";
	if ((r = check_env(&s->env, err)) < 0)
		return r;
	*ret_member = "read";
	if ((r = check_paths(&s->read, err)) < 0)
		return r;
	*ret_member = "write";
	if ((r = check_paths(&s->write, err)) < 0)
		return r;
	*ret_member = "folder";
	if (s->folder != NULL && (r = check_paths(&(struct policy_list){ &s->folder, 1 }, err)) < 0)
		return r;
	*ret_member = "idle";
	if (s->idle_ms < POLICY_TOOLS_IDLE_LEAST_MS || s->idle_ms > POLICY_TOOLS_IDLE_MOST_MS)
		return err_set(err, EINVAL, "`idle` is from 1s to 24h: `idle: 5m`");
	*ret_member = "timeout";
	if (s->timeout_ms < POLICY_TOOLS_TIMEOUT_LEAST_MS || s->timeout_ms > POLICY_TOOLS_TIMEOUT_MOST_MS)
		return err_set(err, EINVAL, "`timeout` of a call is from 100ms to 1h: `timeout: 60s`");
	*ret_member = "result";
	if (s->result_max < POLICY_TOOLS_RESULT_LEAST || s->result_max > POLICY_TOOLS_RESULT_MOST)
		return err_set(err, EINVAL, "`result` is the most bytes of one result, from 1K to 64M: `result: 1M`");
	return 0;
}
