/* watch.c - see watch.h. */
#include "witness/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/call.h"
#include "base/err.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_parts.h"

#define SECOND_NS 1000000000ULL

/* A pattern with the home folder in it, alone and with all that is beneath. */
struct pattern {
	char *alone, *beneath;
};

struct rule {
	const struct policy_behaviour *is;
	struct pattern *patterns;       /* NULL: as in IS, of calls' names */
	uint64_t second;                /* of the last firings */
	uint32_t n, more;
};

struct witness_watch {
	struct policy *policy;
	struct rule *rules;
	size_t n;
};

/* ---- making ---- */

void
witness_watch_free(struct witness_watch *w)
{
	if (w == NULL)
		return;
	for (size_t i = 0; w->rules != NULL && i < w->n; i++) {
		struct rule *rule = &w->rules[i];

		for (size_t k = 0; rule->patterns != NULL && k < rule->is->patterns.n; k++) {
			free(rule->patterns[k].alone);
			free(rule->patterns[k].beneath);
		}
		free(rule->patterns);
	}
	free(w->rules);
	policy_free(w->policy);
	free(w);
}

static int
make_patterns(struct rule *rule, const char *home)
{
	const struct policy_list *list = &rule->is->patterns;

	rule->patterns = calloc(list->n + 1, sizeof(*rule->patterns));
	for (size_t i = 0; rule->patterns != NULL && i < list->n; i++) {
		bool at_home = list->at[i][0] == '~';
		struct pattern *p = &rule->patterns[i];

		if (asprintf(&p->alone, "%s%s", at_home ? home : "", list->at[i] + at_home) < 0)
			p->alone = NULL;
		if (p->alone == NULL || asprintf(&p->beneath, "%s/**", p->alone) < 0)
			p->beneath = NULL;
		if (p->beneath == NULL)
			return -ENOMEM;
	}
	return rule->patterns != NULL ? 0 : -ENOMEM;
}

int
witness_watch_new(struct buf *matchers, const char *home, struct witness_watch **ret_watch, struct err *err)
{
	OWN(witness_watch_freep) struct witness_watch *w = calloc(1, sizeof(*w));
	int r = w == NULL ? err_set(err, ENOMEM, "out of memory") : policy_get_matchers(matchers, &w->policy, err);

	if (r < 0)
		return r;
	w->n = policy_n_behaviours(w->policy);
	w->rules = calloc(w->n + 1, sizeof(*w->rules));
	for (size_t i = 0; w->rules != NULL && i < w->n; i++)
		w->rules[i].is = policy_behaviour_at(w->policy, i);
	for (size_t i = 0; w->rules != NULL && i < w->n; i++)
		if (w->rules[i].is->kind != POLICY_REFUSED && make_patterns(&w->rules[i], home) < 0)
			r = -ENOMEM;
	if (w->rules == NULL || r < 0)
		return err_set(err, ENOMEM, "out of memory");
	*ret_watch = TAKE(w);
	return 0;
}

/* ---- paths ---- */

/* An absolute path without ".", ".." and double slashes; 0 if it is none. */
static size_t
clean_path(const struct act_text *path, char ret_path[ACT_PATH_MAX + 1])
{
	const char *at = path->at, *end = at + path->len;
	size_t n = 0;

	if (path->len == 0 || path->len > ACT_PATH_MAX || *at != '/')
		return 0;
	while (at < end) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		size_t len = (size_t)((slash != NULL ? slash : end) - at);

		if (len == 2 && at[0] == '.' && at[1] == '.') {
			while (n > 0 && ret_path[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && at[0] == '.')) {
			ret_path[n++] = '/';
			memcpy(ret_path + n, at, len);
			n += len;
		}
		at += len + 1;
	}
	if (n == 0)
		ret_path[n++] = '/';
	return n;
}

/* Whether one of the rule's patterns may fit something beneath the folder: not for all that "**" stands for, which is
 * any folder. */
static bool
holds_fitting(const struct rule *rule, const struct act_text *folder)
{
	char clean[ACT_PATH_MAX + 1], front[ACT_PATH_MAX + 1];
	size_t len = folder->at == NULL ? 0 : clean_path(folder, clean);

	for (size_t i = 0; len > 0 && i < rule->is->patterns.n; i++) {
		const char *pattern = rule->patterns[i].alone, *slash = strchr(pattern + 1, '/');

		for (; slash != NULL && (size_t)(slash - pattern) < sizeof(front); slash = strchr(slash + 1, '/')) {
			size_t n = (size_t)(slash - pattern);

			memcpy(front, pattern, n);
			front[n] = '\0';
			if (strcmp(front, "**") != 0 && (n < 3 || strcmp(front + n - 3, "/**") != 0) &&
			    policy_glob_path(front, clean, len))
				return true;
		}
	}
	return false;
}

static bool
path_fits(const struct rule *rule, const struct act_text *path)
{
	char clean[ACT_PATH_MAX + 1];
	size_t len = path->at == NULL ? 0 : clean_path(path, clean);

	for (size_t i = 0; len > 0 && i < rule->is->patterns.n; i++)
		if (policy_glob_path(rule->patterns[i].alone, clean, len) ||
		    policy_glob_path(rule->patterns[i].beneath, clean, len))
			return true;
	return false;
}

/* ---- acts ---- */

/* A search through PATH fails often; a wall that refuses is what a rule looks for. */
static bool
is_tried(const struct act *act)
{
	return act->unknown || act->error == 0 || act->error == EPERM || act->error == EACCES || act->error == EROFS;
}

/* One source has what a wall refuses as a call, the other as a program that was not started. */
static bool
is_refused_exec(const struct act *act)
{
	const int nr = (int)act->nr;

	if (act->kind == ACT_REFUSED)
		return nr == call_number(CALL_ARCH_HERE, "execve") || nr == call_number(CALL_ARCH_HERE, "execveat");
	return act->kind == ACT_EXEC && (act->error == EPERM || act->error == EACCES);
}

/* Which file it was does not matter to `refused` alone. */
static bool
exec_fits(const struct rule *rule, const struct act *act)
{
	const bool is_about_files = rule->is->memory || rule->is->downloaded || rule->is->patterns.n > 0;

	if (rule->is->refused && is_refused_exec(act))
		return true;
	return act->kind == ACT_EXEC &&
	       ((act->unknown && is_about_files) || (rule->is->memory && act->from_memory) ||
	        (rule->is->downloaded && (act->from_memory || act->from_writable)) ||
	        path_fits(rule, &act->path) || path_fits(rule, &act->script));
}

/* Everything that changes a file or its name.  A link to a watched file is a second way to it, and so is another name
 * of a folder that it is in. */
static bool
write_fits(const struct rule *rule, const struct act *act)
{
	if (act->kind != ACT_FILE || act->file == ACT_READ)
		return false;
	return act->unknown || path_fits(rule, &act->path) || path_fits(rule, &act->to) ||
	       (act->file == ACT_RENAME && (holds_fitting(rule, &act->path) || holds_fitting(rule, &act->to)));
}

static bool
read_fits(const struct rule *rule, const struct act *act)
{
	return act->kind == ACT_FILE && act->file == ACT_READ && (act->unknown || path_fits(rule, &act->path));
}

static bool
address_fits(const struct policy_host *net, const unsigned char address[16], uint16_t port)
{
	return (net->port == 0 || net->port == port) &&
	       (net->kind == POLICY_HOST_ANY || policy_net_has(net, address));
}

static bool
connect_fits(const struct rule *rule, const struct act *act)
{
	unsigned char address[16] = { [10] = 0xff, [11] = 0xff };

	if (act->kind != ACT_NET || act->net != ACT_CONNECT)
		return false;
	if (act->unknown)
		return true;
	if (act->family == AF_UNIX)
		return path_fits(rule, &act->path);
	if (act->family == AF_INET)
		memcpy(address + 12, act->address, 4);
	else if (act->family == AF_INET6)
		memcpy(address, act->address, 16);
	else
		return false;
	for (size_t i = 0; i < rule->is->n_nets; i++)
		if (address_fits(&rule->is->nets[i], address, act->port))
			return true;
	return false;
}

static bool
refused_fits(const struct rule *rule, const struct act *act)
{
	const char *name = act->kind == ACT_REFUSED ? call_name(CALL_ARCH_HERE, act->nr) : NULL;

	if (act->kind == ACT_REFUSED && act->unknown)
		return true;
	for (size_t i = 0; name != NULL && i < rule->is->patterns.n; i++)
		if (policy_glob_text(rule->is->patterns.at[i], name, strlen(name)))
			return true;
	return false;
}

int
witness_watch_next(const struct witness_watch *w, const struct act *act, size_t from)
{
	static bool (*const fit[])(const struct rule *rule, const struct act *act) = {
		[POLICY_EXEC] = exec_fits, [POLICY_WRITE] = write_fits, [POLICY_READ] = read_fits,
		[POLICY_CONNECT] = connect_fits, [POLICY_REFUSED] = refused_fits,
	};

	for (size_t i = from; i < w->n; i++)
		if ((act->kind == ACT_REFUSED || is_tried(act)) && fit[w->rules[i].is->kind](&w->rules[i], act))
			return (int)i;
	return -1;
}

uint64_t
witness_watch_key(const struct witness_watch *w, size_t rule)
{
	return w->rules[rule].is->key;
}

/* A rule that stops the cell ends the flood itself. */
bool
witness_watch_fires(struct witness_watch *w, size_t rule, uint64_t time_ns, uint32_t *ret_more)
{
	struct rule *r = &w->rules[rule];

	if (r->second != time_ns / SECOND_NS) {
		r->second = time_ns / SECOND_NS;
		r->n = 0;
	}
	if (!r->is->stops && r->n == WATCH_EACH) {
		r->more += r->more < UINT32_MAX;
		return false;
	}
	r->n += !r->is->stops;
	*ret_more = r->more;
	r->more = 0;
	return true;
}

/* ---- for people ---- */

static void
describe_net(const struct act *act, char ret_what[WATCH_WHAT_MAX])
{
	char address[INET6_ADDRSTRLEN] = "";
	bool abstract = act->path.len > 0 && act->path.at[0] == '\0';

	if (act->family == AF_UNIX)
		snprintf(ret_what, WATCH_WHAT_MAX, "connect %s%.*s", abstract ? "@" : "",
		         (int)act->path.len - abstract, act->path.len > 0 ? act->path.at + abstract : "");
	else if (inet_ntop(act->family, act->address, address, sizeof(address)) != NULL)
		snprintf(ret_what, WATCH_WHAT_MAX, act->family == AF_INET6 ? "connect [%s]:%u" : "connect %s:%u", address,
		         act->port);
	else
		snprintf(ret_what, WATCH_WHAT_MAX, "connect");
}

void
witness_watch_what(const struct act *act, char ret_what[WATCH_WHAT_MAX])
{
	static const char *const files[] = { "write", "create", "read", "rename", "remove", "link", "mode", "owner",
	                                     "times" };
	const struct act_text *path = act->kind == ACT_EXEC && act->script.len > 0 ? &act->script : &act->path;
	const char *name;

	if (act->kind == ACT_NET) {
		describe_net(act, ret_what);
	} else if (act->kind == ACT_REFUSED) {
		name = call_name(CALL_ARCH_HERE, act->nr);
		snprintf(ret_what, WATCH_WHAT_MAX, "refused %s", name != NULL ? name : act->unknown ? "an unknown call" : "call");
	} else {
		snprintf(ret_what, WATCH_WHAT_MAX, "%s %.*s%s%.*s",
		         act->kind == ACT_EXEC ? act->from_memory ? "exec from memory" : "exec" : files[act->file],
		         (int)path->len, path->len > 0 ? path->at : "", act->to.len > 0 ? " to " : "", (int)act->to.len,
		         act->to.len > 0 ? act->to.at : "");
	}
}
