/* run_agent_mcp.c - tells an agent of the MCP servers of its profile, in the cell only.
 *
 * The servers are words or variables of this start, or a file in the cell's home: the operator's own configuration
 * does not have them.  Gemini believes only root's settings, so it gets an extension, which the next start replaces. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "policy/policy_tools.h"

#define EXTENSION ".gemini/extensions/cloister/gemini-extension.json"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static json_t *
list_of(char *const *words)
{
	json_t *list = json_array();

	for (; words != NULL && *words != NULL; words++)
		(void)json_array_append_new(list, json_string(*words));
	return list;
}

static json_t *
env_of(char *const *env)
{
	json_t *map = json_object();

	for (; env != NULL && *env != NULL; env++) {
		const char *value = strchr(*env, '=');

		(void)json_object_setn_new(map, *env, (size_t)(value - *env), json_string(value + 1));
	}
	return map;
}

/* {"command": ..., "args": [...], "env": {...}} */
static json_t *
program_of(const struct profile_server *s)
{
	return json_pack("{s:s, s:o, s:o}", "command", s->command[0], "args", list_of(s->command + 1), "env",
	                 env_of(s->env));
}

static json_t *
for_claude(const struct profile_server *s)
{
	return s->url != NULL ? json_pack("{s:s, s:s}", "type", "http", "url", s->url) : program_of(s);
}

static json_t *
for_gemini(const struct profile_server *s)
{
	return s->url != NULL ? json_pack("{s:s}", "httpUrl", s->url) : program_of(s);
}

static json_t *
for_opencode(const struct profile_server *s)
{
	return s->url != NULL ? json_pack("{s:s, s:s, s:b}", "type", "remote", "url", s->url, "enabled", 1) :
	       json_pack("{s:s, s:o, s:o, s:b}", "type", "local", "command", list_of(s->command), "environment",
	                 env_of(s->env), "enabled", 1);
}

/* {NAME: ...}; the caller owns it. */
static json_t *
all_of(const struct profile_mcp *mcp, json_t *(*put)(const struct profile_server *s))
{
	OWN(json_decrefp) json_t *servers = json_object();

	for (size_t i = 0; i < mcp->n; i++)
		if (json_object_set_new(servers, mcp->servers[i].name, put(&mcp->servers[i])) < 0)
			return NULL;
	return TAKE(servers);
}

/* Takes ownership of DOCUMENT; the caller owns the text. */
static char *
text_of(json_t *document)
{
	OWN(json_decrefp) json_t *owned = document;

	return owned == NULL ? NULL : json_dumps(owned, JSON_COMPACT | JSON_ENSURE_ASCII);
}

/* {MEMBER: {NAME: ...}}; the caller owns it. */
static char *
put_all(const struct profile_mcp *mcp, const char *member, json_t *(*put)(const struct profile_server *s))
{
	return text_of(json_pack("{s:o}", member, all_of(mcp, put)));
}

/* ---- words ---- */

static int
add_word(struct run_agent *a, char *word, struct err *err)
{
	if (word == NULL || a->n_words == RUN_AGENT_WORDS_MAX) {
		free(word);
		return word == NULL ? no_memory(err) : err_set(err, E2BIG, "the agent has too many MCP servers");
	}
	a->words[a->n_words++] = word;
	return 0;
}

/* "-c mcp_servers.NAME.KEY=VALUE", where VALUE is TOML: strings and lists look as in JSON. */
static int
add_setting(struct run_agent *a, const char *name, const char *key, json_t *value, struct err *err)
{
	OWN(json_decrefp) json_t *owned = value;
	OWN(freep) char *text = owned == NULL ? NULL : json_dumps(owned, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
	int r;

	if (text == NULL)
		return no_memory(err);
	r = add_word(a, strdup("-c"), err);
	return r < 0 ? r : add_word(a, str_format("mcp_servers.%s.%s=%s", name, key, text), err);
}

static int
add_for_codex(struct run_agent *a, const struct profile_server *s, struct err *err)
{
	char key[PROFILE_TEXT_MAX];
	int r;

	if (s->url != NULL)
		return add_setting(a, s->name, "url", json_string(s->url), err);
	r = add_setting(a, s->name, "command", json_string(s->command[0]), err);
	r = r == 0 ? add_setting(a, s->name, "args", list_of(s->command + 1), err) : r;
	for (char **env = s->env; r == 0 && env != NULL && *env != NULL; env++) {
		const char *value = strchr(*env, '=');

		snprintf(key, sizeof(key), "env.%.*s", (int)(value - *env), *env);
		r = add_setting(a, s->name, key, json_string(value + 1), err);
	}
	return r;
}

/* ---- variables and files ---- */

static int
add_variable(struct run *run, const char *name, const char *value, struct err *err)
{
	OWN(freep) char *entry = value == NULL ? NULL : str_format("%s=%s", name, value);

	return entry == NULL ? no_memory(err) : run_add_env(run, entry, NULL, err);
}

/* A document has no files. */
static int
add_extension(struct run *run, const struct profile_mcp *mcp, struct err *err)
{
	struct cell_file *file = &run->spec.files[run->spec.n_files];

	if (run->print_doc || run->spec.n_files == CELL_FILES_MAX)
		return err_set(err, EINVAL, "a document cannot have the MCP servers of this agent, which reads them from a file");
	file->path = strdup(EXTENSION);
	file->text = text_of(json_pack("{s:s, s:s, s:o}", "name", "cloister", "version", "1.0.0", "mcpServers",
	                               all_of(mcp, for_gemini)));
	run->spec.n_files++;
	return file->path == NULL || file->text == NULL ? no_memory(err) : 0;
}

/* The extension of an earlier start is in a kept folder. */
static int
renew_extension(struct run *run, struct run_agent *a, const struct profile_mcp *mcp, struct err *err)
{
	OWN(freep) char *place = NULL;
	OWN(closep) int kept = run->print_doc ? -1 : run_agent_open_kept(a, &place, err);

	if (run->print_doc || kept < 0)
		return run->print_doc ? 0 : kept;
	return faccessat(kept, EXTENSION, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : add_extension(run, mcp, err);
}

int
run_agent_add_mcp(struct run *run, const struct run_agent *a, struct err *err)
{
	const struct profile_mcp *mcp = &a->found->profile->mcp;
	int r = 0;

	for (size_t i = 0; r == 0 && i < mcp->n; i++)
		if (mcp->servers[i].allow != NULL)
			r = run_add_allow_of(run, mcp->servers[i].allow, a->found->file, mcp->servers[i].line, err);
	return r;
}

/* Behind the words of the profile, and before those of the operator. */
static int
insert_words(struct run *run, const struct run_agent *a, struct err *err)
{
	const struct profile *p = a->found->profile;
	size_t n = strv_len(run->spec.argv), at = 1 + (p->args == NULL ? 0 : strv_len(p->args));
	char **all = n + a->n_words > CELL_ARGS_MAX ? NULL : calloc(n + a->n_words + 1, sizeof(char *));

	if (all == NULL)
		return err_set(err, E2BIG, "the command has more than %d words", CELL_ARGS_MAX);
	memcpy(all, run->spec.argv, at * sizeof(char *));
	for (size_t i = 0; i < a->n_words; i++)
		if ((all[at + i] = strdup(a->words[i])) == NULL)
			return no_memory(err);
	memcpy(all + at + a->n_words, run->spec.argv + at, (n - at) * sizeof(char *));
	free(run->spec.argv);
	run->spec.argv = all;
	return 0;
}

static int
tell(struct run *run, struct run_agent *a, const struct profile_mcp *mcp, struct err *err)
{
	OWN(freep) char *text = NULL;
	int r = 0;

	switch (mcp->form) {
	case PROFILE_MCP_CLAUDE:
		text = put_all(mcp, "mcpServers", for_claude);
		return add_word(a, text == NULL ? NULL : str_format("--mcp-config=%s", text), err);
	case PROFILE_MCP_CODEX:
		for (size_t i = 0; r == 0 && i < mcp->n; i++)
			r = add_for_codex(a, &mcp->servers[i], err);
		return r;
	case PROFILE_MCP_GEMINI:
		return add_extension(run, mcp, err);
	default:
		text = put_all(mcp, "mcp", for_opencode);
		return add_variable(run, "OPENCODE_CONFIG_CONTENT", text, err);
	}
}

/* The tools of the policy are one more server, behind one address. */
int
run_agent_tell_mcp(struct run *run, struct err *err)
{
	static char name[] = "cloister", url[] = POLICY_TOOLS_URL;
	const struct profile_server tools = { .name = name, .url = url };
	struct run_agent *a = run->agent;
	struct profile_mcp mcp;
	int r;

	if (a == NULL)
		return 0;
	mcp = a->found->profile->mcp;
	if (run->spec.has_tools && mcp.form != PROFILE_MCP_NONE && mcp.n < PROFILE_SERVERS_MAX)
		mcp.servers[mcp.n++] = tools;
	if (mcp.n == 0 && mcp.form == PROFILE_MCP_GEMINI)
		return renew_extension(run, a, &mcp, err);
	if (mcp.n == 0 || mcp.form == PROFILE_MCP_NONE)
		return 0;
	r = tell(run, a, &mcp, err);
	return r < 0 || a->n_words == 0 ? r : insert_words(run, a, err);
}
