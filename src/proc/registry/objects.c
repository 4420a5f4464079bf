/* objects.c - `cloister capability|agent|env|policy|target`: register, list, show, diff, history and
 * retire. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "dispatch/dispatch.h"
#include "proc/registry/registry_proc.h"
#include "registry/object.h"

#define STDIN_MAX (4 << 20)

struct asked {
	const struct args *args;
	enum registry_kind kind;
	char **words;                   /* behind the verb */
	size_t n_words;
	bool json;
	struct registry *r;             /* NULL: not created yet */
	struct err *err;
};

static int
no_memory(struct asked *a)
{
	return err_set(a->err, ENOMEM, "out of memory");
}

/* ---- register ---- */

static int
tell_registered(struct asked *a, const struct registry_version *v, bool created)
{
	json_t *told;

	if (!a->json) {
		printf("%s %s@%s%s\n", registry_kinds[v->kind], v->name, v->hash,
		       created ? "" : " was registered already");
		return 0;
	}
	told = registry_version_json(v);
	if (told == NULL || json_object_set_new(told, "new", json_boolean(created)) < 0)
		return no_memory(a);
	return objects_print_json(told, a->err);
}

#define NOTE_MEMBERS_MAX 2

/* For the operator's timeline: the change to an object of this kind. */
static int
put_note(struct asked *a, const char *becomes, const struct audit_member *members, size_t n,
         struct buf *ret_text)
{
	struct audit_member all[NOTE_MEMBERS_MAX + 1] = {
		{ .name = "uid", .kind = AUDIT_NUMBER, .number = getuid() },
	};
	char type[64];
	int r;

	memcpy(all + 1, members, n * sizeof(*members));
	snprintf(type, sizeof(type), "%s.%s", registry_kinds[a->kind], becomes);
	r = operator_event(type, all, n + 1, ret_text, a->err);
	buf_put(ret_text, "", 1);
	return r;
}

static int
tell(void *arg, const char *event, size_t len, struct err *err)
{
	struct operator *op = arg;
	int r = op->dir <= 0 ? operator_open(op, err) : 0;

	return r < 0 ? r : operator_append(op, OPERATOR_NOW, event, len, err);
}

/* Records events that wait, perhaps since a process was killed. */
static int
tell_notes(struct registry *reg, struct err *err)
{
	OWN(operator_close) struct operator op = {0};

	return registry_tell_notes(reg, tell, &op, err);
}

/* Copies standard input to a file, which can be read like others. */
static int
keep_stdin(struct err *err)
{
	OWN(closep) int fd = memfd_create("stdin", MFD_CLOEXEC);
	char block[16384];
	size_t len = 0;
	ssize_t n;
	int r = 0;

	if (fd < 0 || fchmod(fd, 0600) < 0)
		return err_errno(err, "cannot keep standard input");
	while (r == 0 && (n = read(STDIN_FILENO, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read standard input");
		len += (size_t)n;
		r = len > STDIN_MAX ? err_set(err, EFBIG, "standard input is over %d MiB", STDIN_MAX >> 20) :
		    write_all(fd, block, (size_t)n, err);
	}
	if (r == 0 && dup2(fd, STDIN_FILENO) < 0)
		r = err_errno(err, "cannot keep standard input");
	return r;
}

/* Names can be registered in any order, so this is not a mistake yet. */
static void
note_missing(struct asked *a, const struct object *o)
{
	const char *policy = json_string_value(json_object_get(o->content, "policy"));
	struct registry_version v;
	struct err err = {0};

	if (o->kind != REGISTRY_AGENT || policy == NULL ||
	    registry_resolve(a->r, REGISTRY_POLICY, policy, REGISTRY_LIVE, &v, NULL, &err) == 0)
		return;
	fprintf(stderr, "cloister: the agent '%s' cannot be dispatched yet: ", o->name);
	text_print_safe(stderr, err.text, strlen(err.text), false);
	fputc('\n', stderr);
}

/* Makes O a version, and tells everybody. */
static int
put_one(struct asked *a, const struct object *o)
{
	OWN(buf_free) struct buf note = {0};
	struct registry_version v;
	bool created;
	int r = put_note(a, "registered", (struct audit_member[]){ { .name = "name", .text = o->name },
	                 { .name = "hash", .text = o->hash } }, 2, &note);

	r = r == 0 ? registry_put(a->r, o, (char *)note.data, &v, &created, a->err) : r;
	if (r < 0)
		return r;
	note_missing(a, o);
	/* Also for an older version, to which the name refers again. */
	r = tell_notes(a->r, a->err);
	return r < 0 ? err_wrap(a->err, "the change is made, and will be recorded as soon as possible") :
	       tell_registered(a, &v, created);
}

static int
register_one(struct asked *a, const char *path, const char *name)
{
	OWN(object_freep) struct object *o = NULL;
	bool is_stdin = strcmp(path, "-") == 0;
	int r = 0;

	if (is_stdin && a->kind == REGISTRY_CAPABILITY)
		return err_set(a->err, EINVAL, "a capability is a folder, so it cannot be read from "
		               "standard input");
	if (is_stdin)
		r = keep_stdin(a->err);
	if (r < 0)
		return r;
	path = is_stdin ? "/dev/stdin" : path;
	r = a->kind == REGISTRY_CAPABILITY ? object_read_folder(a->r, path, name, &o, a->err) :
	                                     object_read_file(a->kind, path, name, &o, a->err);

	return r < 0 ? r : put_one(a, o);
}

static int
register_all(struct asked *a)
{
	const char *name = args_get(a->args, "name");
	int r = 0;

	if (name != NULL && a->n_words > 1)
		return err_set(a->err, EINVAL, "--name is for one %s, not for several", registry_kinds[a->kind]);
	for (size_t i = 0; r == 0 && i < a->n_words; i++)
		r = register_one(a, a->words[i], name);
	return r;
}

/* ---- list and history ---- */

static int
get_limit(struct asked *a, size_t *ret_limit)
{
	const char *text = args_get(a->args, "limit");
	uint64_t limit = REGISTRY_PAGE_MAX;
	int r = text == NULL ? 0 : num_parse_count(text, 1, REGISTRY_PAGE_MAX, &limit, a->err);

	*ret_limit = (size_t)limit;
	return r < 0 ? err_wrap(a->err, "--limit") : 0;
}

/* NEXT is the value for --after to continue; NULL: that was all. */
static int
tell_page(struct asked *a, const struct registry_page *page, bool history, const char *next)
{
	json_t *items;

	if (!a->json)
		objects_print_page(page, history);
	if (next != NULL)
		fprintf(stderr, "there are more: --after %s\n", next);
	if (!a->json)
		return 0;
	items = json_array();
	for (size_t i = 0; i < page->n; i++)
		if (json_array_append_new(items, registry_version_json(&page->at[i])) < 0)
			return no_memory(a);
	return objects_print_json(items, a->err);
}

static int
list(struct asked *a)
{
	OWN(registry_page_free) struct registry_page page = {0};
	const char *after = args_get(a->args, "after");
	size_t limit;
	int r = get_limit(a, &limit);

	if (r == 0 && a->r != NULL)
		r = registry_list(a->r, a->kind, args_get(a->args, "all") != NULL ? REGISTRY_ALL : REGISTRY_LIVE,
		                  after != NULL ? after : "", limit, &page, a->err);
	return r < 0 ? r : tell_page(a, &page, false, page.more ? page.at[page.n - 1].name : NULL);
}

static int
history(struct asked *a)
{
	OWN(registry_page_free) struct registry_page page = {0};
	const char *after = args_get(a->args, "after");
	char next[24];
	uint64_t before = 0;
	size_t limit;
	int r = get_limit(a, &limit);

	if (r == 0 && after != NULL && num_parse_count(after, 1, INT64_MAX, &before, a->err) < 0)
		r = err_wrap(a->err, "--after must be the number of a version here");
	r = r == 0 ? registry_history(a->r, a->kind, a->words[0], before, limit, &page, a->err) : r;
	if (r < 0)
		return r;
	if (page.more)
		snprintf(next, sizeof(next), "%llu", (unsigned long long)page.at[page.n - 1].number);
	return tell_page(a, &page, true, page.more ? next : NULL);
}

/* ---- show and diff ---- */

static int
show(struct asked *a)
{
	OWN(json_decrefp) json_t *content = NULL, *status = NULL;
	struct registry_version v;
	json_t *told;
	int r = registry_resolve(a->r, a->kind, a->words[0], REGISTRY_ALL, &v, &content, a->err);

	if (r < 0)
		return r;
	if (args_get(a->args, "canonical") != NULL)
		return objects_print_canonical(content, a->err);
	if (a->kind == REGISTRY_TARGET)
		status = dispatch_target_status(a->r, v.name, content);
	if (!a->json) {
		objects_print_one(&v, content);
		objects_print_status(status);
		return 0;
	}
	told = registry_version_json(&v);
	if (told == NULL || json_object_set(told, "content", content) < 0 ||
	    (status != NULL && json_object_set(told, "status", status) < 0))
		return no_memory(a);
	return objects_print_json(told, a->err);
}

/* The version before the newest one of the bare name REF. */
static int
resolve_previous(struct asked *a, const struct registry_version *newest, json_t **ret_content,
                 struct registry_version *ret_version)
{
	OWN(registry_page_free) struct registry_page page = {0};
	char ref[REGISTRY_REF_MAX + 1];
	int r = registry_history(a->r, a->kind, newest->name, newest->number, 1, &page, a->err);

	if (r == 0 && page.n == 0)
		r = err_set(a->err, ENOENT, "the %s '%s' has one version only: there is nothing to compare it "
		            "with", registry_kinds[a->kind], newest->name);
	if (r < 0)
		return r;
	snprintf(ref, sizeof(ref), "%s@%s", newest->name, page.at[0].hash);
	return registry_resolve(a->r, a->kind, ref, REGISTRY_ALL, ret_version, ret_content, a->err);
}

static int
diff(struct asked *a)
{
	OWN(json_decrefp) json_t *from = NULL, *to = NULL, *differs = NULL;
	struct registry_version old, new;
	json_t *told;
	int r = registry_resolve(a->r, a->kind, a->words[a->n_words - 1], REGISTRY_ALL, &new, &to, a->err);

	if (r == 0)
		r = a->n_words == 2 ?
		    registry_resolve(a->r, a->kind, a->words[0], REGISTRY_ALL, &old, &from, a->err) :
		    resolve_previous(a, &new, &from, &old);
	r = r == 0 ? registry_diff(from, to, &differs, a->err) : r;
	if (r < 0)
		return r;
	if (!a->json) {
		printf("--- %s@%s\n+++ %s@%s\n", old.name, old.hash, new.name, new.hash);
		return objects_print_diff(differs, a->err);
	}
	told = json_pack("{s:o,s:o,s:O}", "from", registry_version_json(&old), "to",
	                 registry_version_json(&new), "diff", differs);
	return told == NULL ? no_memory(a) : objects_print_json(told, a->err);
}

/* ---- retire ---- */

static int
retire(struct asked *a)
{
	bool back = args_get(a->args, "undo") != NULL;
	OWN(buf_free) struct buf note = {0};
	size_t n = 0;
	json_t *told;
	int r = put_note(a, back ? "brought_back" : "retired",
	                 (struct audit_member[]){ { .name = "ref", .text = a->words[0] } }, 1, &note);

	r = r == 0 ? registry_retire(a->r, a->kind, a->words[0], back, (char *)note.data, &n, a->err) : r;
	if (r < 0)
		return r;
	r = tell_notes(a->r, a->err);
	if (r < 0)
		return err_wrap(a->err, "the change is made, and will be recorded as soon as possible");
	if (!a->json) {
		if (n == 0)
			printf("nothing changed: it is %sretired already\n", back ? "not " : "");
		else
			printf("%zu version%s of %s %s\n", n, n == 1 ? "" : "s", a->words[0],
			       back ? "can be used again" : "retired");
		return 0;
	}
	told = json_pack("{s:s,s:s,s:b,s:I}", "kind", registry_kinds[a->kind], "ref", a->words[0],
	                 "retired", (int)!back, "changed", (json_int_t)n);
	return told == NULL ? no_memory(a) : objects_print_json(told, a->err);
}

/* ---- verbs ---- */

static const struct verb {
	const char *name, *takes;       /* TAKES: the message if the number of words is wrong */
	size_t min, max;
	const char *options;            /* with blanks around them */
	int (*run)(struct asked *a);
} verbs[] = {
	{ "register", NULL, 1, SIZE_MAX, " json name ", register_all },
	{ "list", "no words", 0, 0, " json all limit after ", list },
	{ "show", "NAME or NAME@sha256:...", 1, 1, " json canonical ", show },
	{ "diff", "NAME, or two of NAME@sha256:...", 1, 2, " json ", diff },
	{ "history", "NAME", 1, 1, " json limit after ", history },
	{ "retire", "NAME or NAME@sha256:...", 1, 1, " json undo ", retire },
};

static int
check_words(const struct verb *verb, struct asked *a)
{
	const char *takes = verb->takes;

	if (takes == NULL)
		takes = a->kind == REGISTRY_CAPABILITY ? "FOLDER, with a capability.yaml in it" : "FILE, of YAML, or - for standard input";
	if (a->n_words >= verb->min && a->n_words <= verb->max)
		return 0;
	return err_set(a->err, EINVAL, "`cloister %s %s` takes %s", registry_kinds[a->kind], verb->name,
	               takes);
}

static int
do_verb(const struct verb *verb, struct asked *a)
{
	OWN(registry_closep) struct registry *r = NULL;
	bool makes = verb->run == register_all;
	char what[64];
	int n;

	snprintf(what, sizeof(what), "%s %s", registry_kinds[a->kind], verb->name);
	n = args_check(a->args, what, verb->options, a->err);
	n = n == 0 ? check_words(verb, a) : n;
	if (n < 0)
		return n;
	a->json = args_get(a->args, "json") != NULL;
	n = registry_open(makes, &r, a->err);
	if (n == -ENOENT && !makes && verb->max > 0)
		return err_set(a->err, ENOENT, "there is no %s '%.64s': nothing is registered yet",
		               registry_kinds[a->kind], a->words[0]);
	if (n < 0 && n != -ENOENT)
		return n;
	a->r = r;
	if (r != NULL)
		(void)tell_notes(r, NULL);
	return verb->run(a);
}

int
cmd_objects(const struct args *args, struct err *err)
{
	struct asked a = { .args = args, .words = args->words + 1, .n_words = args->n_words - 1,
		.err = err };
	const char *names[ARRAY_LEN(verbs) + 1] = { NULL }, *nearest;

	while (strcmp(registry_kinds[a.kind], args->command) != 0)
		a.kind++;
	if (args->n_words == 0)
		return err_set(err, EINVAL, "`%s` needs a verb: register, list, show, diff, history or retire",
		               args->command);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i] = verbs[i].name;
		if (strcmp(args->words[0], verbs[i].name) == 0)
			return do_verb(&verbs[i], &a);
	}
	nearest = text_nearest(args->words[0], names);
	if (nearest != NULL)
		return err_set(err, EINVAL, "there is no `%s %.64s`: did you mean '%s'?", args->command,
		               args->words[0], nearest);
	return err_set(err, EINVAL, "there is no `%s %.64s`: register, list, show, diff, history or retire",
	               args->command, args->words[0]);
}

/* ---- assign ---- */

static const struct {
	const char *prefix, *member;
} assignable[] = {
	{ "capability:", "capabilities" }, { "env:", "env" }, { "secret:", "secrets" },
};
#define ASSIGNS_SECRET 2

static bool
is_registered(struct asked *a, enum registry_kind kind, const char *ref)
{
	struct registry_version v;

	return registry_resolve(a->r, kind, ref, REGISTRY_LIVE, &v, NULL, NULL) == 0;
}

/* The kind of WORD: an index of ASSIGNABLE.  *ret_rest is WORD without its prefix. */
static int
find_kind(struct asked *a, const char *word, const char **ret_rest)
{
	struct registry_ref ref;
	bool capability, env;

	*ret_rest = word;
	for (int i = 0; i < (int)ARRAY_LEN(assignable); i++)
		if (strncmp(word, assignable[i].prefix, strlen(assignable[i].prefix)) == 0) {
			*ret_rest = word + strlen(assignable[i].prefix);
			return i;
		}
	/* Names of secrets have capital letters, as a rule. */
	if (registry_ref_parse(word, true, &ref, NULL) < 0)
		return ASSIGNS_SECRET;
	capability = is_registered(a, REGISTRY_CAPABILITY, word);
	env = is_registered(a, REGISTRY_ENV, word);
	if (capability && env)
		return err_set(a->err, ENOTUNIQ, "'%.80s' is both a capability and an env: write capability:%.80s or "
		               "env:%.80s", word, word, word);
	if (!capability && !env)
		return err_set(a->err, ENOENT, "there is no capability or env '%.80s'; if you mean a secret, write "
		               "secret:%.80s", word, word);
	return capability ? 0 : 1;
}

static int
assign(struct asked *a)
{
	OWN(json_decrefp) json_t *more = json_pack("{s:[],s:[],s:[]}", "capabilities", "env", "secrets");
	OWN(object_freep) struct object *o = NULL;
	const char *rest;
	int r = more == NULL ? no_memory(a) : 0;

	for (size_t i = 1; r == 0 && i < a->n_words; i++) {
		int kind = find_kind(a, a->words[i], &rest);

		if (kind < 0)
			return kind;
		if (json_array_append_new(json_object_get(more, assignable[kind].member), json_string(rest)) < 0)
			r = no_memory(a);
	}
	r = r == 0 ? registry_assign(a->r, a->words[0], more, &o, a->err) : r;
	return r < 0 ? r : put_one(a, o);
}

int
cmd_assign(const struct args *args, struct err *err)
{
	static const struct verb verb = { "assign", "AGENT CAPABILITY|SECRET|ENV...", 2, SIZE_MAX, " json ", assign };
	struct asked a = { .args = args, .kind = REGISTRY_AGENT, .words = args->words, .n_words = args->n_words,
		.err = err };

	if (args->n_words < verb.min)
		return err_set(err, EINVAL, "`cloister assign` takes %s", verb.takes);
	return do_verb(&verb, &a);
}
