/* server_run.c - see server_run.h. */
#include "tools/server_run.h"

#include <errno.h>
#include <limits.h>
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
#include "base/words.h"
#include "policy/policy_yaml.h"
#include "tools/scope_hold.h"
#include "tools/server_hold.h"
#include "tools/server_wasm.h"
#include "vault/catalogue.h"

#define FILE_PATH "/proc/self/fd/%d"

void
server_run_free(struct server_run *run)
{
	for (size_t i = 0; i < run->n; i++)
		free(run->words[i]);
	run->n = 0;
	closep(&run->policy);
	closep(&run->within);
	run->policy = run->within = -1;
}

static int
add_owned(struct server_run *run, char *word, struct err *err)
{
	if (word == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (run->n == SERVER_RUN_WORDS_MAX) {
		free(word);
		return err_set(err, E2BIG, "the server has too many grants");
	}
	run->words[run->n++] = word;
	run->words[run->n] = NULL;
	return 0;
}

static int
add(struct server_run *run, const char *word, struct err *err)
{
	return add_owned(run, strdup(word), err);
}

/* Only its owner may write it, as every policy. */
static int
put_file(const char *name, const char *text, struct err *err)
{
	OWN(closep) int fd = memfd_create(name, MFD_CLOEXEC);
	int r = fd < 0 || fchmod(fd, 0600) < 0 ? err_errno(err, "cannot make a memory file") :
	        write_all(fd, text, strlen(text), err);

	return r < 0 ? r : TAKE_FD(fd);
}

/* The scopes that bound the grants.  False: none do. */
static bool
bounds_of(const struct server_run_place *place, struct scope_hold *ret_hold)
{
	*ret_hold = (struct scope_hold){ .tools = place->tool != NULL ? &place->tool : place->all,
	                                 .n = place->tool != NULL ? 1 : place->n_all, .folder = place->folder,
	                                 .home = place->home };
	return ret_hold->tools != NULL;
}

/* A scope is about what a program does here: a server elsewhere is behind our bridge. */
static int
put_scope(struct buf *b, const struct server_run_place *place, const struct scope_hold *hold, const char *own, struct err *err)
{
	int r = scope_hold_put(b, &place->tool, 1, err);

	r = r < 0 ? r : scope_hold_put_secrets(b, hold, own, err);
	r = r < 0 ? r : scope_hold_put_programs(b, hold, err);
	return r < 0 ? r : scope_hold_put_watch(b, hold, NULL, err);
}

/* Of a server that starts, with what is settled for the life of the cell. */
static int
put_start(struct buf *b, const struct policy_tools_server *server, const struct scope_hold *hold, const char *own,
         struct err *err)
{
	OWN(freep) char *scope = server->start[0] != '\0' ? str_format("{egress: %s, secrets: " SCOPE_HOLD_OWN_USES "}", server->start) :
	                                                      strdup("{}");
	const struct policy_tool start = { .name = SCOPE_HOLD_START, .hash = "", .scope = scope }, *tool = &start;
	int r = scope == NULL ? err_set(err, ENOMEM, "out of memory") : scope_hold_put(b, &tool, 1, err);

	r = r < 0 ? r : scope_hold_put_secrets(b, hold, own, err);
	r = r < 0 ? r : scope_hold_put_programs(b, hold, err);
	return r < 0 ? r : scope_hold_put_watch(b, hold, server, err);
}

static int
add_file(struct server_run *run, const char *option, int *ret_fd, int at, struct buf *text, struct err *err)
{
	int r;

	buf_put(text, "", 1);
	if (buf_failed(text))
		return err_set(err, EFBIG, "the policy is too long");
	r = *ret_fd = put_file(option + strspn(option, "-"), (char *)text->data, err);
	r = r < 0 ? r : add(run, option, err);
	return r < 0 ? r : add_owned(run, str_format(FILE_PATH, at), err);
}

static int
add_policies(struct server_run *run, const struct policy_tools_server *server, const struct server_run_place *place,
             struct err *err)
{
	/* A cell without a policy cannot be given one while it runs. */
	const char *own = server->policy[0] != '\0' ? server->policy : "{version: 1}";
	OWN(buf_free) struct buf within = BUF(SCOPE_HOLD_MAX), first = BUF(SCOPE_HOLD_MAX);
	struct scope_hold hold = {0};
	const bool is_here = server->url == NULL, is_bounded = is_here && bounds_of(place, &hold);
	int r = 0;

	/* A scope takes the place of the server's own rules, and gives it no more. */
	if (is_bounded && place->is_held && place->tool == NULL) {
		r = put_start(&first, server, &hold, own, err);
		buf_put_text(&within, own);
	} else if (is_bounded) {
		r = scope_hold_put_policy(&first, &hold, own, err);
		if (r == 0 && place->tool != NULL && place->tool->scope[0] != '\0')
			r = put_scope(&within, place, &hold, own, err);
	} else {
		buf_put_text(&first, own);
	}
	r = r < 0 ? r : add_file(run, "-p", &run->policy, place->policy_at, &first, err);
	return r < 0 || within.len == 0 ? r : add_file(run, "--within", &run->within, place->within_at, &within, err);
}

/* "rw", "ro", or NULL: the cell does not get it.  In a session only a path of which scopes name a part is narrowed here:
 * the others are watched. */
static const char *
mode_of(const struct server_run_place *place, const char *path, bool writes)
{
	struct scope_hold hold;
	enum scope_hold_cover cover;

	if (!bounds_of(place, &hold))
		return writes ? "rw" : "ro";
	cover = writes ? scope_hold_writes(&hold, path) : SCOPE_HOLD_NONE;
	if (writes && (cover == SCOPE_HOLD_ALL || (place->tool == NULL && cover == SCOPE_HOLD_NONE)))
		return "rw";
	return place->tool == NULL || scope_hold_reads(&hold, path) == SCOPE_HOLD_ALL ? "ro" : NULL;
}

static int
add_grant(struct server_run *run, const struct server_run_place *place, const char *text, bool writes, struct err *err)
{
	char path[PATH_MAX];
	const char *mode;
	int r = policy_tools_path(text, place->folder, place->home, path, sizeof(path), err);

	if (r < 0)
		return r;
	if (strchr(path, ':') != NULL)
		return err_set(err, EINVAL, "'%.200s' cannot be granted: its path has a ':'", path);
	mode = mode_of(place, path, writes);
	if (mode == NULL)
		return 0;
	r = add(run, "-v", err);
	return r < 0 ? r : add_owned(run, str_format("%s:%s:%s", path, path, mode), err);
}

static bool
has(const struct policy_list *list, const char *text)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->at[i], text) == 0)
			return true;
	return false;
}

/* The working folder is a grant, too: writable if `write` has it. */
static int
add_folder(struct server_run *run, const struct policy_tools_server *server, const struct server_run_place *place,
           struct err *err)
{
	char path[PATH_MAX];
	const char *mode;
	int r;

	if (server->folder == NULL)
		return 0;
	r = policy_tools_path(server->folder, place->folder, place->home, path, sizeof(path), err);
	mode = r < 0 ? NULL : mode_of(place, path, has(&server->write, server->folder));
	if (mode == NULL)
		return r;
	r = add(run, "-w", err);
	return r < 0 ? r : add_owned(run, str_format("%s:%s", path, mode), err);
}

/* Only once: a path that may be written may be read. */
static bool
is_granted_else(const struct policy_tools_server *server, const char *path)
{
	return (server->folder != NULL && strcmp(server->folder, path) == 0) || has(&server->write, path);
}

static int
add_grants(struct server_run *run, const struct policy_tools_server *server, const struct server_run_place *place,
           struct err *err)
{
	int r = add_folder(run, server, place, err);

	for (size_t i = 0; r == 0 && i < server->read.n; i++)
		if (!is_granted_else(server, server->read.at[i]))
			r = add_grant(run, place, server->read.at[i], false, err);
	for (size_t i = 0; r == 0 && i < server->write.n; i++)
		if (server->folder == NULL || strcmp(server->folder, server->write.at[i]) != 0)
			r = add_grant(run, place, server->write.at[i], true, err);
	for (size_t i = 0; r == 0 && i < server->env.n; i++) {
		r = add(run, "-e", err);
		r = r < 0 ? r : add(run, server->env.at[i], err);
	}
	return r;
}

char *
server_run_bridge_grant(struct err *err)
{
	char helper[PATH_MAX], *grant;

	if (exe_find_helper("cloister-stdio", helper, err) < 0)
		return NULL;
	grant = str_format("%s:" SERVER_RUN_STDIO ":ro", helper);
	if (grant == NULL)
		err_set(err, ENOMEM, "out of memory");
	return grant;
}

char *
server_run_bridge_rule(const struct policy_tools_server *server)
{
	return str_format("GET,POST,DELETE %.*s", (int)strcspn(server->url, "?#"), server->url);
}

char *
server_run_token(const char *server, const char *suffix)
{
	char *name = str_format("%s%s", server, suffix);

	for (char *c = name; c != NULL && *c != '\0'; c++)
		*c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c;
	return name;
}

static int
add_bridge(struct server_run *run, const struct policy_tools_server *server, struct err *err)
{
	char *grant = server_run_bridge_grant(err);
	int r = grant == NULL ? -ENOENT : add(run, "-v", err);

	if (r < 0) {
		free(grant);
		return r;
	}
	r = add_owned(run, grant, err);
	r = r < 0 ? r : add(run, "--allow", err);
	return r < 0 ? r : add_owned(run, server_run_bridge_rule(server), err);
}

void
server_run_stand_ins(const struct policy_tools_server *server, struct words *w)
{
	OWN(node_freep) struct node *root = NULL;
	const struct node *secrets = NULL;

	if (*server->policy != '\0' && node_parse("", server->policy, strlen(server->policy), &root, NULL) == 0)
		secrets = node_get(root, "secrets");
	for (size_t i = 0; secrets != NULL && i < secrets->n; i++) {
		const char *text = secrets->items[i]->kind == NODE_SCALAR ? secrets->items[i]->text : "";
		const size_t len = strcspn(text, "=:@");
		OWN(freep) char *name = strndup(text, len);
		const struct catalogue_entry *known = name != NULL ? catalogue_find(name) : NULL;

		if (text[len] == '=')
			words_add(w, str_format("--env=%.*s=not-a-secret", (int)strcspn(text + len + 1, ":@"), text + len + 1));
		else if (len > 0)
			words_add(w, str_format("--env=%s=not-a-secret", name));
		if (text[len] != '=' && known != NULL)
			words_add(w, str_format("--env=%.*s=not-a-secret", (int)strcspn(known->variables, " "), known->variables));
	}
}

static int
add_stand_ins(struct server_run *run, const struct policy_tools_server *server, struct err *err)
{
	OWN(words_free) struct words words = {0};
	int r = 0;

	server_run_stand_ins(server, &words);
	for (size_t i = 0; r == 0 && i < words.n; i++)
		r = add_owned(run, TAKE(words.list[i]), err);
	return r < 0 || !words.failed ? r : err_set(err, E2BIG, "the server has too many secrets");
}

static int
add_wasm(struct server_run *run, const struct policy_tools_server *server, const struct server_run_place *place,
         struct err *err)
{
	OWN(words_free) struct words words = {0};
	int r = server_wasm_words(server, place->folder, place->home, place->held != NULL ? place->held->module : NULL, &words, err);

	for (size_t i = 0; r == 0 && i < words.n; i++)
		r = add_owned(run, TAKE(words.list[i]), err);
	return r;
}

/* A server with a URL is our own bridge, which may reach nothing else. */
static int
add_command(struct server_run *run, const struct policy_tools_server *server, const struct server_held *held, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && held != NULL && i < held->n_grants; i++) {
		r = add(run, "-v", err);
		r = r < 0 ? r : add(run, held->grants[i], err);
	}

	if (server->image != NULL) {
		r = add(run, "--image", err);
		r = r < 0 ? r : add(run, server->image, err);
	}
	if (server->url != NULL)
		r = r < 0 ? r : add_bridge(run, server, err);
	r = r < 0 ? r : add(run, "--", err);
	if (server->url != NULL) {
		r = r < 0 ? r : add(run, SERVER_RUN_STDIO, err);
		r = r < 0 ? r : add(run, server->url, err);
		r = r < 0 ? r : add_owned(run, server_run_token(server->name, "_TOKEN"), err);
	}
	for (size_t i = 0; r == 0 && i < server->n_command; i++)
		r = add(run, held != NULL && held->words[i] != NULL ? held->words[i] : server->command[i], err);
	return r;
}

int
server_run_build(const struct policy_tools_server *server, const struct server_run_place *place,
                 struct server_run *ret_run, struct err *err)
{
	OWN(server_run_free) struct server_run run = { .policy = -1, .within = -1 };
	static const char *const first[] = { "cloister", "run", "--quiet", "--no-tty", "--id" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(first); i++)
		r = add(&run, first[i], err);
	r = r < 0 ? r : add(&run, place->id, err);
	r = r < 0 ? r : add_policies(&run, server, place, err);
	r = r < 0 ? r : add_grants(&run, server, place, err);
	if (r == 0 && place->stands_in && server->url == NULL)
		r = add_stand_ins(&run, server, err);
	if (r == 0)
		r = server->wasm != NULL ? add_wasm(&run, server, place, err) : add_command(&run, server, place->held, err);
	if (r < 0)
		return err_wrap(err, "the server '%s'", server->name);
	*ret_run = run;
	run = (struct server_run){ .policy = -1, .within = -1 };
	return 0;
}
