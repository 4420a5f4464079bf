/* dispatch_start.c - makes the cell document of an attempt, with exactly what was resolved, and starts it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_doc.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "registry/object.h"
#include "registry/registry.h"

#define FILE_MAX CELL_SPEC_MAX           /* more would not fit the cell's description */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* Appends ITEM, which may be NULL, to the list NAME of DOC; creates the list if it is missing. */
static int
append(json_t *doc, const char *name, json_t *item, struct err *err)
{
	json_t *list = json_object_get(doc, name);

	if (list == NULL && json_object_set_new(doc, name, list = json_array()) < 0)
		list = NULL;
	return list == NULL || json_array_append_new(list, item) < 0 ? no_memory(err) : 0;
}

/* ---- files in the folder ---- */

/* "'it'\''s'" */
static void
put_shell_word(struct buf *b, const char *word)
{
	buf_put(b, "'", 1);
	for (; *word != '\0'; word++)
		if (*word == '\'')
			buf_put(b, "'\\''", 4);
		else
			buf_put(b, word, 1);
	buf_put(b, "'", 1);
}

/* Writes a script that looks for the commands that capabilities need; true if there are any. */
static bool
write_tool_check(struct buf *b, const json_t *capabilities)
{
	json_t *capability, *tool;
	size_t i, k;
	bool any = false;

	buf_put_text(b, "#!/bin/sh\nfailed=0\nneed() {\n\tcommand -v -- \"$1\" >/dev/null 2>&1 && return\n"
	            "\techo \"the capability '$2' needs the command '$1', which is not in the cell\" >&2\n"
	            "\tfailed=1\n}\n");
	json_array_foreach(capabilities, i, capability)
		json_array_foreach(json_object_get(capability, "tools"), k, tool) {
			buf_put_text(b, "need ");
			put_shell_word(b, json_string_value(tool));
			buf_put_text(b, " ");
			put_shell_word(b, dispatch_text(capability, "name"));
			buf_put_text(b, "\n");
			any = true;
		}
	buf_put_text(b, "exit $failed\n");
	return any;
}

static int
make_tool_check(int folder, const char *id, const json_t *capabilities, json_t *doc,
                struct err *err)
{
	OWN(freep) char *path = NULL;
	OWN(buf_free) struct buf b = BUF(FILE_MAX);
	int r;

	if (!write_tool_check(&b, capabilities))
		return 0;
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the capabilities need too many tools");
	r = dispatch_write_file(folder, DISPATCH_TOOLS_FILE, b.data, b.len, false, err);
	if (r == 0 && fchmodat(folder, DISPATCH_TOOLS_FILE, 0700, 0) < 0)
		r = err_errno(err, "cannot write '%s'", DISPATCH_TOOLS_FILE);
	path = r == 0 ? dispatch_path(id, DISPATCH_TOOLS_FILE, err) : NULL;
	if (path == NULL)
		return r < 0 ? r : -ENOENT;
	r = append(doc, "grants", json_pack("{s:s,s:s,s:s}", "host", path, "cell", DISPATCH_TOOLS, "access",
	                                    "ro"), err);
	return r < 0 ? r : append(doc, "setups", json_string(DISPATCH_TOOLS), err);
}

/* ---- variables ---- */

/* The address and token for dispatching others, if it may.  A token must not be in a document. */
static int
put_mcp(struct registry *reg, const struct dispatch *d, const json_t *resolved, struct buf *b,
        struct err *err)
{
	const char *url = dispatch_text(json_object_get(resolved, "mcp"), "url");
	char token[DISPATCH_TOKEN_MAX], line[sizeof("CLOISTER_MCP_TOKEN=") + DISPATCH_TOKEN_MAX];
	int r;

	if (url[0] == '\0')
		return 0;
	r = dispatch_token_mint(registry_db(reg), d, token, err);
	if (r < 0)
		return r;
	buf_put_text(b, "CLOISTER_MCP_URL=");
	buf_put(b, url, strlen(url) + 1);
	snprintf(line, sizeof(line), "CLOISTER_MCP_TOKEN=%s", token);
	buf_put(b, line, strlen(line) + 1);
	return buf_failed(b) ? no_memory(err) : 0;
}

static int
add_variable(json_t *doc, const char *name, const char *value, size_t *size, struct err *err)
{
	*size += strlen(name) + strlen(value) + 2;
	if (*size > FILE_MAX)
		return err_set(err, E2BIG, "the values of the envs are over %d KiB", FILE_MAX / 1024);
	return append(doc, "env", json_pack("{s:s,s:s}", "name", name, "value", value), err);
}

/* The operator's own. */
static int
add_envs(struct registry *reg, const json_t *resolved, json_t *doc, size_t *size, struct err *err)
{
	json_t *named;
	size_t i;
	int r = 0;

	json_array_foreach(json_object_get(resolved, "envs"), i, named) {
		OWN(json_decrefp) json_t *content = NULL;
		OWN(freep) char *ref = str_format("%s@%s", dispatch_text(named, "name"),
		                                  dispatch_text(named, "hash"));
		struct registry_version version;
		const char *name;
		json_t *value;

		r = ref == NULL ? no_memory(err) :
		    registry_resolve(reg, REGISTRY_ENV, ref, REGISTRY_ALL, &version, &content, err);
		if (r < 0)
			return r;
		json_object_foreach(json_object_get(content, "values"), name, value)
			if ((r = add_variable(doc, name, json_string_value(value), size, err)) < 0)
				return r;
	}
	return 0;
}

/* First the operator's variables, then those that the agent may rely on. */
static int
add_env(struct registry *reg, const struct dispatch *d, const json_t *resolved, json_t *doc,
        struct err *err)
{
	char number[16];
	const struct { const char *name, *value; } own[] = {
		{ "CLOISTER_DISPATCH", d->id }, { "CLOISTER_ATTEMPT", number }, { "CLOISTER_AGENT", d->agent },
		{ "CLOISTER_CHAIN", d->chain }, { "CLOISTER_PRINCIPAL", d->principal },
		{ "CLOISTER_OUT", DISPATCH_OUT }, { "CLOISTER_CAPABILITIES", DISPATCH_CAPABILITIES },
	};
	size_t size = 0;
	int r = add_envs(reg, resolved, doc, &size, err);

	snprintf(number, sizeof(number), "%u", d->attempts);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(own); i++)
		r = add_variable(doc, own[i].name, own[i].value, &size, err);
	return r;
}

/* ---- rules ---- */

/* {"name","text"} of the policy HASH, which is also kept in the folder as NAME. */
static int
take_policy(struct registry *reg, int folder, const char *id, const char *name, const char *hash,
            json_t **ret_policy, struct err *err)
{
	OWN(freep) char *text = NULL, *path = dispatch_path(id, name, err);
	size_t len;
	int r = path == NULL ? -ENOENT : registry_read_blob(reg, hash, POLICY_FILE_MAX, &text, &len, err);

	if (r < 0)
		return err_wrap(err, "cannot read the policy in force");
	/* It was written with the dispatch, but without waiting for the disk. */
	r = dispatch_write_file(folder, name, text, len, false, err);
	if (r < 0)
		return r;
	*ret_policy = json_pack("{s:s,s:s%}", "name", path, "text", text, len);
	return *ret_policy == NULL ? no_memory(err) : 0;
}

static int
add_policies(struct registry *reg, int folder, const struct dispatch *d, const json_t *resolved,
             json_t *doc, struct err *err)
{
	const char *hash = dispatch_text(json_object_get(resolved, "policy"), "hash");
	char name[DISPATCH_WITHIN_MAX];
	json_t *named, *policy;
	size_t i;
	int r = 0;

	if (*hash != '\0') {
		r = take_policy(reg, folder, d->id, DISPATCH_POLICY_FILE, hash, &policy, err);
		if (r == 0 && json_object_set_new(doc, "policy", policy) < 0)
			r = no_memory(err);
	}
	/* The policies of the dispatches that led to this one. */
	json_array_foreach(json_object_get(resolved, "within"), i, named) {
		if (r < 0)
			return r;
		dispatch_within_name(i, dispatch_text(named, "agent"), name);
		r = take_policy(reg, folder, d->id, name, dispatch_text(named, "hash"), &policy, err);
		r = r == 0 ? append(doc, "within", policy, err) : r;
	}
	return r;
}

/* ---- grants ---- */

/* Those of its files that run before the agent. */
static int
add_setups(const json_t *content, const char *inside, json_t *doc, struct err *err)
{
	json_t *file;
	size_t k;
	int r = 0;

	for (size_t i = 0; i < OBJECT_SETUPS; i++)
		json_array_foreach(json_object_get(content, "files"), k, file) {
			if (r < 0 || strcmp(dispatch_text(file, "path"), object_setups[i]) != 0)
				continue;
			r = append(doc, "setups", json_sprintf("%s/%s", inside, object_setups[i]), err);
		}
	return r;
}

static int
add_capabilities(struct registry *reg, const json_t *capabilities, json_t *given, json_t *doc,
                 struct err *err)
{
	json_t *named;
	size_t i;

	json_array_foreach(capabilities, i, named) {
		OWN(json_decrefp) json_t *content = NULL;
		OWN(freep) char *path = NULL, *inside = NULL;
		OWN(freep) char *ref = str_format("%s@%s", dispatch_text(named, "name"),
		                                  dispatch_text(named, "hash"));
		struct registry_version version;
		uint64_t since = 0;
		int r = ref == NULL ? no_memory(err) :
		        registry_resolve(reg, REGISTRY_CAPABILITY, ref, REGISTRY_ALL, &version, &content, err);

		/* The document has the hash; this makes its folder. */
		if (r == 0)
			r = registry_tree(reg, &version, content, &path, &since, err);
		if (r < 0)
			return r;
		inside = str_format(DISPATCH_CAPABILITIES "/%s", version.name);
		if (inside == NULL ||
		    json_object_set_new(given, version.hash, json_integer((json_int_t)since)) < 0)
			return no_memory(err);
		/* Its tools are in the policy; the cells of its calls find its folder. */
		if (dispatch_is_module(content))
			continue;
		r = append(doc, "grants", json_pack("{s:s,s:s}", "blob", version.hash, "cell", inside), err);
		r = r == 0 ? add_setups(content, inside, doc, err) : r;
		if (r < 0)
			return r;
	}
	return 0;
}

static int
add_folders(const json_t *resolved, json_t *doc, struct err *err)
{
	OWN(freep) char *out = dispatch_empty_path(err);
	const json_t *workspace = json_object_get(resolved, "workspace");
	int r = out == NULL ? -ENOENT :
	        append(doc, "grants", json_pack("{s:s,s:s,s:s}", "host", out, "cell", DISPATCH_OUT, "access",
	                                        "overlay"), err);

	if (r == 0 && json_is_object(workspace))
		r = append(doc, "grants", json_pack("{s:s,s:s,s:b}", "host", dispatch_text(workspace, "path"),
		                                    "access", dispatch_text(workspace, "mode"), "workspace", 1),
		           err);
	return r;
}

/* ---- the root ---- */

/* The bytes that were resolved are those that are there now. */
static int
add_root(struct registry *reg, const json_t *resolved, json_t *doc, struct err *err)
{
	OWN(dispatch_root_close) struct dispatch_root root = {0};
	int r = dispatch_root_open(reg, resolved, &root, err);

	r = r == 0 ? dispatch_programs_check(&root, json_object_get(resolved, "programs"), err) : r;
	/* init compares them with what it executes. */
	if (r == 0 && json_object_get(resolved, "starts") != NULL &&
	    json_object_set(doc, "starts", json_object_get(resolved, "starts")) < 0)
		r = no_memory(err);
	return r == 0 ? dispatch_root_describe(&root, resolved, doc, err) : r;
}

/* ---- the document ---- */

/* No longer than the requesting dispatch may run. */
static int
add_limits(const json_t *resolved, json_t *doc, struct err *err)
{
	const json_t *limits = json_object_get(resolved, "limits");
	const json_t *deadline = json_object_get(resolved, "deadline_ms");
	uint64_t most = dispatch_limits_time(limits), now = dispatch_now_ms();
	uint64_t until = (uint64_t)json_integer_value(deadline), time_ms = 0;
	json_t *numbers;
	int r;

	if (json_is_integer(deadline)) {
		if (until <= now)
			return err_set(err, ETIME, "the time of the dispatch that asked for it is over");
		time_ms = until - now < most ? until - now : most;
	}
	r = dispatch_limits_number(limits, time_ms, &numbers, err);
	return r == 0 && json_object_set_new(doc, "limits", numbers) < 0 ? no_memory(err) : r;
}

/* Members that are in the resolution, or in the row, as they are. */
static int
add_rest(const struct dispatch *d, const json_t *resolved, json_t *doc, struct err *err)
{
	const char *input = dispatch_text(json_object_get(resolved, "input"), "hash");
	const char *boundary = dispatch_text(resolved, "boundary"), *runtime = dispatch_text(resolved, "runtime");
	const char *images = dispatch_text(resolved, "images"), *record = dispatch_text(resolved, "record");

	if (json_object_set_new(doc, "version", json_integer(CELL_DOC_VERSION)) < 0 ||
	    json_object_set(doc, "command", json_object_get(resolved, "command")) < 0 ||
	    json_object_set(doc, "secrets", json_object_get(resolved, "secrets")) < 0 ||
	    json_object_set_new(doc, "chain", json_string(d->chain)) < 0 ||
	    (json_is_true(json_object_get(resolved, "sandbox")) &&
	     json_object_set_new(doc, "waits", json_true()) < 0) ||
	    (json_is_true(json_object_get(resolved, "terminal")) &&
	     json_object_set_new(doc, "terminal", json_true()) < 0) ||
	    (d->principal[0] != '\0' &&
	     json_object_set_new(doc, "principal", json_string(d->principal)) < 0) ||
	    (boundary[0] != '\0' &&
	     json_object_set_new(doc, "boundary", json_string(boundary)) < 0) ||
	    (images[0] != '\0' && json_object_set_new(doc, "images", json_string(images)) < 0) ||
	    (record[0] != '\0' && json_object_set_new(doc, "record", json_string(record)) < 0) ||
	    (runtime[0] != '\0' && json_object_set_new(doc, "runtime", json_string(runtime)) < 0) ||
	    (input[0] != '\0' && json_object_set_new(doc, "input", json_pack("{s:s}", "blob", input)) < 0))
		return no_memory(err);
	return 0;
}

/* `cloister run` finds it by its hash in the registry's folder: it may have to be brought there. */
static int
bring_input(struct registry *reg, const json_t *resolved, struct err *err)
{
	const char *input = dispatch_text(json_object_get(resolved, "input"), "hash");
	OWN(closep) int fd = input[0] != '\0' ? registry_open_blob(reg, input, err) : -1;

	return input[0] != '\0' && fd < 0 ? err_wrap(err, "the input") : 0;
}

static int
describe(struct registry *reg, const struct dispatch *d, const json_t *resolved, json_t *given,
         json_t *doc, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(d->id, true, err);
	const json_t *capabilities = json_object_get(resolved, "capabilities");
	int r = folder < 0 ? folder : add_rest(d, resolved, doc, err);

	r = r == 0 ? bring_input(reg, resolved, err) : r;
	r = r == 0 ? add_root(reg, resolved, doc, err) : r;
	r = r == 0 ? add_env(reg, d, resolved, doc, err) : r;
	r = r == 0 ? add_folders(resolved, doc, err) : r;
	r = r == 0 ? add_policies(reg, folder, d, resolved, doc, err) : r;
	r = r == 0 ? add_limits(resolved, doc, err) : r;
	r = r == 0 ? add_capabilities(reg, capabilities, given, doc, err) : r;
	/* After the setups: one of them may install the tools. */
	return r == 0 ? make_tool_check(folder, d->id, capabilities, doc, err) : r;
}

int
dispatch_start(struct registry *reg, const struct dispatch *d, const struct target *target,
               struct target_link *link, const char *lent, json_t *given, struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL, *doc = json_object();
	OWN(buf_free) struct buf env = BUF(FILE_MAX);
	int r;

	r = dispatch_get_to_run(reg, d, &resolved, err);
	r = r == 0 ? describe(reg, d, resolved, given, doc, err) : r;
	r = r == 0 ? put_mcp(reg, d, resolved, &env, err) : r;
	return r < 0 ? r : target->start(link, &(struct target_work){ .doc = doc, .env = env.data, .env_len = env.len,
	                                                              .lent = lent }, err);
}
