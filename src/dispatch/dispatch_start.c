/* dispatch_start.c - starts an attempt as `cloister run -d`, with exactly what was resolved. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"
#include "registry/registry.h"

#define WORDS_MAX 8192
#define FILE_MAX CELL_SPEC_MAX           /* more would not fit the cell's description */

/* The words of the command line; NULL-terminated. */
struct words {
	char **at;
	size_t n;
	bool failed;
};

static void
words_free(struct words *w)
{
	strv_free(w->at);
}

static void
add(struct words *w, char *owned)
{
	if (w->at == NULL)
		w->at = calloc(WORDS_MAX + 1, sizeof(*w->at));
	if (w->at == NULL || owned == NULL || w->n == WORDS_MAX) {
		w->failed = true;
		free(owned);
		return;
	}
	w->at[w->n++] = owned;
}

static void
add_option(struct words *w, const char *option, const char *value)
{
	add(w, strdup(option));
	if (value != NULL)
		add(w, strdup(value));
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

static void
put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

/* Writes a script that looks for the commands that capabilities need; true if there are any. */
static bool
write_tool_check(struct buf *b, const json_t *capabilities)
{
	json_t *capability, *tool;
	size_t i, k;
	bool any = false;

	put_text(b, "#!/bin/sh\nfailed=0\nneed() {\n\tcommand -v -- \"$1\" >/dev/null 2>&1 && return\n"
	            "\techo \"the capability '$2' needs the command '$1', which is not in the cell\" >&2\n"
	            "\tfailed=1\n}\n");
	json_array_foreach(capabilities, i, capability)
		json_array_foreach(json_object_get(capability, "tools"), k, tool) {
			put_text(b, "need ");
			put_shell_word(b, json_string_value(tool));
			put_text(b, " ");
			put_shell_word(b, dispatch_text(capability, "name"));
			put_text(b, "\n");
			any = true;
		}
	put_text(b, "exit $failed\n");
	return any;
}

static int
make_tool_check(int folder, const char *id, const json_t *capabilities, struct words *w,
                struct err *err)
{
	OWN(freep) char *path = NULL;
	OWN(buf_free) struct buf b;
	int r;

	buf_init(&b, FILE_MAX);
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
	add(w, strdup("-v"));
	add(w, str_format("%s:" DISPATCH_TOOLS ":ro", path));
	add_option(w, "--setup", DISPATCH_TOOLS);
	return 0;
}

static void
put_variable(struct buf *b, const char *name, const char *value)
{
	put_text(b, name);
	buf_put(b, "=", 1);
	buf_put(b, value, strlen(value) + 1);
}

/* Adds the address and token for dispatching others, if it may. */
static int
put_mcp(struct registry *reg, const struct dispatch *d, const json_t *resolved, struct buf *b,
        struct err *err)
{
	const char *url = dispatch_text(json_object_get(resolved, "mcp"), "url");
	char token[DISPATCH_TOKEN_MAX];
	int r;

	if (url[0] == '\0')
		return 0;
	r = dispatch_token_mint(registry_db(reg), d, token, err);
	if (r < 0)
		return r;
	put_variable(b, "CLOISTER_MCP_URL", url);
	put_variable(b, "CLOISTER_MCP_TOKEN", token);
	return 0;
}

/* First the operator's variables, then those that the agent may rely on. */
static int
make_env(struct registry *reg, const struct dispatch *d, const json_t *resolved, int *ret_env,
         struct err *err)
{
	OWN(buf_free) struct buf b;
	OWN(closep) int env = -1;
	char number[16];
	json_t *named;
	size_t i;
	int r;

	buf_init(&b, FILE_MAX);
	json_array_foreach(json_object_get(resolved, "envs"), i, named) {
		OWN(json_decrefp) json_t *content = NULL;
		OWN(freep) char *ref = str_format("%s@%s", dispatch_text(named, "name"),
		                                  dispatch_text(named, "hash"));
		struct registry_version version;
		const char *name;
		json_t *value;

		r = ref == NULL ? err_set(err, ENOMEM, "out of memory") :
		    registry_resolve(reg, REGISTRY_ENV, ref, REGISTRY_ALL, &version, &content, err);
		if (r < 0)
			return r;
		json_object_foreach(json_object_get(content, "values"), name, value)
			put_variable(&b, name, json_string_value(value));
	}
	snprintf(number, sizeof(number), "%u", d->attempts);
	put_variable(&b, "CLOISTER_DISPATCH", d->id);
	put_variable(&b, "CLOISTER_ATTEMPT", number);
	put_variable(&b, "CLOISTER_AGENT", d->agent);
	put_variable(&b, "CLOISTER_CHAIN", d->chain);
	put_variable(&b, "CLOISTER_PRINCIPAL", d->principal);
	put_variable(&b, "CLOISTER_OUT", DISPATCH_OUT);
	put_variable(&b, "CLOISTER_CAPABILITIES", DISPATCH_CAPABILITIES);
	r = put_mcp(reg, d, resolved, &b, err);
	if (r < 0)
		return r;
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the values of the envs are over %d KiB", FILE_MAX / 1024);
	/* Nobody else may find it, since it may hold a token. */
	env = memfd_create("env", MFD_CLOEXEC);
	if (env < 0)
		return err_errno(err, "cannot hand over the environment");
	r = write_all(env, b.data, b.len, err);
	if (r == 0)
		*ret_env = TAKE_FD(env);
	return r;
}

/* It was written with the dispatch, but without waiting for the disk. */
static int
make_policy_file(struct registry *reg, int folder, const char *name, const char *hash,
                 struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = registry_read_blob(reg, hash, POLICY_FILE_MAX, &text, &len, err);

	if (r < 0)
		return err_wrap(err, "cannot read the policy in force");
	return dispatch_write_file(folder, name, text, len, false, err);
}

/* ---- the command line ---- */

static int
add_capabilities(struct registry *reg, const json_t *capabilities, json_t *given, struct words *w,
                 struct err *err)
{
	json_t *named;
	size_t i;

	json_array_foreach(capabilities, i, named) {
		OWN(json_decrefp) json_t *content = NULL;
		OWN(freep) char *path = NULL;
		OWN(freep) char *ref = str_format("%s@%s", dispatch_text(named, "name"),
		                                  dispatch_text(named, "hash"));
		struct registry_version version;
		uint64_t since = 0;
		int r = ref == NULL ? err_set(err, ENOMEM, "out of memory") :
		        registry_resolve(reg, REGISTRY_CAPABILITY, ref, REGISTRY_ALL, &version, &content, err);

		if (r == 0)
			r = registry_tree(reg, &version, content, &path, &since, err);
		if (r == 0 && json_object_set_new(given, version.hash, json_integer((json_int_t)since)) < 0)
			r = err_set(err, ENOMEM, "out of memory");
		if (r < 0)
			return r;
		add(w, strdup("-v"));
		add(w, str_format("%s:" DISPATCH_CAPABILITIES "/%s:ro", path, version.name));
		if (json_is_true(json_object_get(named, "setup"))) {
			add(w, strdup("--setup"));
			add(w, str_format(DISPATCH_CAPABILITIES "/%s/setup.sh", version.name));
		}
	}
	return 0;
}

/* The policies of the dispatches that led to this one. */
static int
add_within(struct registry *reg, int folder, const struct dispatch *d, const json_t *resolved,
           struct words *w, struct err *err)
{
	char name[DISPATCH_WITHIN_MAX];
	json_t *named;
	size_t i;

	json_array_foreach(json_object_get(resolved, "within"), i, named) {
		int r;

		dispatch_within_name(i, dispatch_text(named, "agent"), name);
		r = make_policy_file(reg, folder, name, dispatch_text(named, "hash"), err);
		if (r < 0)
			return r;
		add(w, strdup("--within"));
		add(w, dispatch_path(d->id, name, err));
	}
	return 0;
}

/* No longer than the requesting dispatch may run. */
static int
add_time(const json_t *resolved, struct words *w, struct err *err)
{
	const json_t *deadline = json_object_get(resolved, "deadline_ms");
	uint64_t most = dispatch_limits_time(json_object_get(resolved, "limits"));
	uint64_t until = (uint64_t)json_integer_value(deadline), now = dispatch_now_ms();

	if (!json_is_integer(deadline))
		return 0;
	if (until <= now)
		return err_set(err, ETIME, "the time of the dispatch that asked for it is over");
	add(w, strdup("--time"));
	add(w, str_format("%llums", (unsigned long long)(until - now < most ? until - now : most)));
	return 0;
}

static void
add_grants(const json_t *resolved, struct words *w)
{
	bool timed = json_is_integer(json_object_get(resolved, "deadline_ms"));
	const json_t *workspace = json_object_get(resolved, "workspace");
	const char *name;
	json_t *value;
	size_t i;

	if (json_is_object(workspace)) {
		add(w, strdup("-w"));
		add(w, str_format("%s:%s", dispatch_text(workspace, "path"),
		                  dispatch_text(workspace, "mode")));
	}
	json_array_foreach(json_object_get(resolved, "secrets"), i, value)
		add_option(w, "-s", json_string_value(value));
	json_object_foreach(json_object_get(resolved, "limits"), name, value) {
		if (timed && strcmp(name, "time") == 0)
			continue;
		add(w, str_format("--%s", name));
		add(w, strdup(json_string_value(value)));
	}
}

static int
add_files(struct registry *reg, int folder, const struct dispatch *d, struct words *w,
          struct err *err)
{
	OWN(freep) char *out = dispatch_empty_path(err);
	OWN(freep) char *policy = dispatch_path(d->id, DISPATCH_POLICY_FILE, err);
	int r = 0;

	if (out == NULL || policy == NULL)
		return -ENOENT;
	if (d->policy_hash[0] != '\0')
		r = make_policy_file(reg, folder, DISPATCH_POLICY_FILE, d->policy_hash, err);
	add(w, strdup("-v"));
	add(w, str_format("%s:" DISPATCH_OUT ":overlay", out));
	add_option(w, "--env-file", "/proc/self/fd/3");
	if (d->policy_hash[0] != '\0')
		add_option(w, "-p", policy);
	else
		add_option(w, "--no-policy", NULL);
	return r;
}

static int
describe(struct registry *reg, const struct dispatch *d, const json_t *resolved, json_t *given,
         struct words *w, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(d->id, true, err);
	const json_t *capabilities = json_object_get(resolved, "capabilities");
	const char *boundary = dispatch_text(resolved, "boundary");
	json_t *word;
	size_t i;
	int r;

	if (folder < 0)
		return folder;
	add_option(w, "cloister", "run");
	add_option(w, "-d", "--keep");
	add_option(w, "--streams", NULL);
	add_option(w, "--id", d->cell);
	add_option(w, "--chain", d->chain);
	if (d->principal[0] != '\0')
		add_option(w, "--principal", d->principal);
	if (strcmp(boundary, BOUNDARY_DEFAULT) != 0)
		add_option(w, "--boundary", boundary);
	if (json_is_object(json_object_get(resolved, "input")))
		add_option(w, "--input", "/proc/self/fd/0");
	r = add_files(reg, folder, d, w, err);
	if (r == 0)
		r = add_within(reg, folder, d, resolved, w, err);
	if (r == 0)
		r = add_time(resolved, w, err);
	if (r == 0)
		r = add_capabilities(reg, capabilities, given, w, err);
	/* After the setups: one of them may install the tools. */
	if (r == 0)
		r = make_tool_check(folder, d->id, capabilities, w, err);
	add_grants(resolved, w);
	add(w, strdup("--"));
	json_array_foreach(json_object_get(resolved, "command"), i, word)
		add(w, strdup(json_string_value(word)));
	if (r == 0 && w->failed)
		r = err_set(err, ENOMEM, "the command line of the cell is too long");
	return r;
}

int
dispatch_start(struct registry *reg, const struct dispatch *d, json_t *given, int *ret_said,
               struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL;
	OWN(words_free) struct words w = {0};
	OWN(closep) int input = -1, said = -1, env = -1;
	char path[PATH_MAX];
	const char *hash;
	int pidfd, r = dispatch_get_resolved(reg, d->id, &resolved, err);

	if (r == 0)
		r = describe(reg, d, resolved, given, &w, err);
	if (r == 0)
		r = make_env(reg, d, resolved, &env, err);
	if (r < 0)
		return r;
	hash = dispatch_text(json_object_get(resolved, "input"), "hash");
	if (hash[0] != '\0') {
		input = registry_open_blob(reg, hash, err);
		if (input < 0)
			return err_wrap(err, "cannot read the input");
	} else {
		input = open("/dev/null", O_RDONLY | O_CLOEXEC);
	}
	said = memfd_create("said", MFD_CLOEXEC);
	if (input < 0 || said < 0)
		return err_errno(err, "cannot start a cell");
	r = exe_find_cloister(path, err);
	if (r < 0)
		return r;
	pidfd = dispatch_spawn(path, w.at, (const int[]){ input, -1, said, env }, err);
	if (pidfd < 0)
		return pidfd;
	*ret_said = TAKE_FD(said);
	return pidfd;
}
