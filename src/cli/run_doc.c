/* run_doc.c - --doc and --print-doc: a cell from its document, and the document of a cell.
 *
 * A document is taken as the options of the command line would be, with the same checks. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_doc.h"
#include "cell/cell_rlimits.h"
#include "cli/policy.h"
#include "cli/run.h"
#include "policy/policy.h"
#include "registry/registry_tree.h"
#include "trust/trust.h"

#define UNNAMED "policy"                /* a policy of --allow alone */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* cell_doc_read() has checked that it is a string, or absent: NULL. */
static const char *
text_of(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static const struct {
	const char *name;
	enum cell_access access;
} accesses[] = { { "ro", CELL_READ }, { "rw", CELL_WRITE }, { "overlay", CELL_OVERLAY } };

/* In a document they are numbers. */
static const struct {
	const char *name;
	size_t at;
	unsigned asked;                 /* enum cell_limit; 0: it has no default */
} limits[] = {
	{ "memory", offsetof(struct cell_limits, memory), CELL_LIMIT_MEMORY },
	{ "cpus_milli", offsetof(struct cell_limits, cpus_milli), CELL_LIMIT_CPUS },
	{ "pids", offsetof(struct cell_limits, pids), CELL_LIMIT_PIDS },
	{ "time_ms", offsetof(struct cell_limits, time_ms), CELL_LIMIT_TIME },
	{ "disk", offsetof(struct cell_limits, disk), CELL_LIMIT_DISK },
	{ "io", offsetof(struct cell_limits, io), CELL_LIMIT_IO },
	{ "ttl_ms", offsetof(struct cell_limits, ttl_ms), 0 },
	{ "idle_pause_ms", offsetof(struct cell_limits, idle_pause_ms), 0 },
};

static uint64_t *
limit_of(const struct cell_limits *l, size_t i)
{
	return (uint64_t *)((uintptr_t)l + limits[i].at);
}

/* Members that are options of the same meaning. */
static const struct {
	const char *member, *option;
} options[] = {
	{ "chain", "chain" }, { "hostname", "hostname" }, { "principal", "principal" },
	{ "profile", "profile" }, { "record", "record" }, { "rootfs", "rootfs" },
	/* These are lists. */
	{ "secrets", "secret" }, { "setups", "setup" },
};

/* ---- taking one ---- */

static int
take_command(struct run *run, const json_t *words, struct err *err)
{
	const json_t *word;
	size_t i;

	run->spec.argv = calloc(json_array_size(words) + 1, sizeof(char *));
	json_array_foreach(words, i, word)
		if (run->spec.argv == NULL || (run->spec.argv[i] = strdup(json_string_value(word))) == NULL)
			return no_memory(err);
	return 0;
}

static int
take_env(struct run *run, const json_t *env, struct err *err)
{
	const json_t *variable;
	size_t i;
	int r;

	json_array_foreach(env, i, variable) {
		const char *file = text_of(variable, "file"), *name = text_of(variable, "name");
		OWN(freep) char *entry = NULL;

		if (file != NULL) {
			r = run_add_env_file(run, file, err);
		} else if (strchr(name, '=') != NULL) {
			r = err_set(err, EINVAL, "the cell document's env[%zu].name has a '='", i);
		} else {
			entry = str_format("%s=%s", name, text_of(variable, "value"));
			r = entry == NULL ? no_memory(err) : run_add_env(run, entry, NULL, err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int
take_grant(struct run *run, const json_t *grant, struct err *err)
{
	const char *host = text_of(grant, "host"), *cell = text_of(grant, "cell");
	const char *blob = text_of(grant, "blob"), *access = text_of(grant, "access");
	OWN(freep) char *path = NULL;
	size_t i = 0;
	int r;

	if (blob != NULL) {
		r = registry_find_tree(blob, &path, err);
		r = r == 0 ? run_grant_path(run, path, cell, CELL_READ, err) : r;
		if (r == 0)
			run->blobs[run->spec.n_grants - 1] = blob;
		return r;
	}
	while (strcmp(accesses[i].name, access) != 0)
		i++;
	if (json_is_true(json_object_get(grant, "workspace")))
		return run_grant_workspace(run, host, accesses[i].access, err);
	return run_grant_path(run, host, cell, accesses[i].access, err);
}

static int
take_volume(struct run *run, const json_t *volume, struct err *err)
{
	OWN(freep) char *text = str_format("%s:%s:%s", text_of(volume, "name"), text_of(volume, "cell"), text_of(volume, "access"));

	return text == NULL ? no_memory(err) : run_add_volume_name(run, text, err);
}

static int
take_cache(struct run *run, const json_t *cache, struct err *err)
{
	const char *cell = text_of(cache, "cell");
	OWN(freep) char *text = str_format("%s%s%s", text_of(cache, "name"), cell != NULL ? ":" : "", cell != NULL ? cell : "");

	return text == NULL ? no_memory(err) : run_add_cache(run, text, err);
}

static int
take_limits(struct cell_limits *l, const json_t *given)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		const json_t *value = json_object_get(given, limits[i].name);

		if (value == NULL)
			continue;
		*limit_of(l, i) = (uint64_t)json_integer_value(value);
		l->asked |= limits[i].asked;
		if (limits[i].asked == CELL_LIMIT_DISK)
			l->inodes = cell_limits_inodes(l->disk);
	}
	return 0;
}

static int
take_port(struct run *run, const json_t *port, struct err *err)
{
	/* Without "host" it is 0: any port. */
	json_int_t host = json_integer_value(json_object_get(port, "host"));
	json_int_t cell = json_integer_value(json_object_get(port, "cell"));
	char text[64];

	snprintf(text, sizeof(text), "%lld:%lld", (long long)host, (long long)cell);
	return run_add_port(run, text, err);
}

static int
take_each(struct run *run, const json_t *list,
          int (*take)(struct run *run, const json_t *item, struct err *err), struct err *err)
{
	const json_t *item;
	size_t i;
	int r = 0;

	json_array_foreach(list, i, item)
		if ((r = take(run, item, err)) < 0)
			break;
	return r;
}

static int
take_layer(struct run *run, const json_t *layer, struct err *err)
{
	return run_add_within_text(run, text_of(layer, "name"), text_of(layer, "text"), err);
}

static int
take_input(struct run *run, const json_t *input, struct err *err)
{
	int r = 0;

	run->input_blob = text_of(input, "blob");
	run->input_file = text_of(input, "host");
	if (run->input_blob != NULL) {
		r = run_find_blob(run->input_blob, &run->input_path, err);
		run->input_file = run->input_path;
	}
	return r;
}

static int
take_texts(const json_t *list, char ***ret_texts, struct err *err)
{
	const json_t *text;
	size_t i;

	*ret_texts = calloc(json_array_size(list) + 1, sizeof(char *));
	json_array_foreach(list, i, text)
		if (*ret_texts == NULL || ((*ret_texts)[i] = strdup(json_string_value(text))) == NULL)
			return no_memory(err);
	return *ret_texts == NULL ? no_memory(err) : 0;
}

static int
take_start(struct run *run, const json_t *start, struct err *err)
{
	const json_t *hashes = json_object_get(start, "hashes");
	size_t n = strv_len(run->spec.starts);
	OWN(freep) char *text = strdup(""), *longer = NULL;

	for (size_t i = 0; text != NULL && i < json_array_size(hashes); i++) {
		longer = str_format("%s%s%s", text, i > 0 ? "," : "", json_string_value(json_array_get(hashes, i)));
		free(text);
		text = TAKE(longer);
	}
	if (text != NULL)
		run->spec.starts[n] = str_format("%s %s", text, text_of(start, "start"));
	return run->spec.starts[n] == NULL ? no_memory(err) : 0;
}

static int
take_starts(struct run *run, const json_t *starts, struct err *err)
{
	if (starts == NULL)
		return 0;
	run->spec.starts = calloc(json_array_size(starts) + 1, sizeof(char *));
	return run->spec.starts == NULL ? no_memory(err) : take_each(run, starts, take_start, err);
}

static uint32_t
id_of(const json_t *bundle, const char *name)
{
	return (uint32_t)json_integer_value(json_object_get(bundle, name));
}

static uint64_t
rlimit_of(const json_t *limit, const char *name)
{
	const json_t *value = json_object_get(limit, name);

	return value == NULL ? CELL_RLIMIT_NONE : (uint64_t)json_integer_value(value);
}

static void
take_rlimits(const json_t *given, struct cell_bundle *b)
{
	const json_t *limit;
	size_t i;

	json_array_foreach(given, i, limit)
		b->rlimits[b->n_rlimits++] = (struct cell_rlimit){ (uint32_t)cell_rlimit_find(text_of(limit, "type")),
			rlimit_of(limit, "soft"), rlimit_of(limit, "hard") };
}

/* Links on the way to a layer are the engine's. */
static int
take_bundle(struct run *run, const json_t *bundle, struct err *err)
{
	struct cell_bundle *b = &run->spec.bundle;
	const json_t *groups = json_object_get(bundle, "groups");
	int r = take_texts(json_object_get(bundle, "layers"), &b->layers, err);

	r = r == 0 ? take_texts(json_object_get(bundle, "scratches"), &b->scratches, err) : r;
	for (char **layer = b->layers; r == 0 && *layer != NULL; layer++)
		r = trust_path(TRUST_ROOTFS, *layer, err);
	b->uid = id_of(bundle, "uid");
	b->gid = id_of(bundle, "gid");
	b->first_uid = id_of(bundle, "first_uid");
	b->first_gid = id_of(bundle, "first_gid");
	for (size_t i = 0; i < json_array_size(groups); i++)
		b->groups[b->n_groups++] = (uint32_t)json_integer_value(json_array_get(groups, i));
	take_rlimits(json_object_get(bundle, "rlimits"), b);
	b->readonly = json_is_true(json_object_get(bundle, "readonly"));
	b->metacopy = json_is_true(json_object_get(bundle, "metacopy"));
	run->spec.root = b->uid == 0;
	free(run->spec.cwd);
	run->spec.cwd = strdup(text_of(bundle, "cwd"));
	return run->spec.cwd == NULL ? no_memory(err) : r;
}

static int
take_options(struct run *run, const json_t *doc, struct err *err)
{
	const json_t *root = json_object_get(doc, "root");
	int r = json_is_true(root) || json_is_string(root) ?
	        run_take_option(run, "root", json_string_value(root), err) : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(options); i++) {
		const json_t *value = json_object_get(doc, options[i].member);

		if (json_is_string(value))
			r = run_take_option(run, options[i].option, json_string_value(value), err);
		for (size_t k = 0; r == 0 && k < json_array_size(value); k++)
			r = run_take_option(run, options[i].option, json_string_value(json_array_get(value, k)),
			                    err);
	}
	return r;
}

const char run_by_document[] = "the document";

static int
take_boundary(struct run *run, const json_t *doc, struct err *err)
{
	int r = text_of(doc, "boundary") == NULL ? 0 :
	        run_set_boundary(run, text_of(doc, "boundary"), run_by_document, err);

	if (r < 0 || text_of(doc, "runtime") == NULL)
		return r;
	run->runtime_by = run_by_document;
	r = policy_boundary_add_runtime(&run->boundary, text_of(doc, "runtime"), err);
	return r < 0 ? err_wrap(err, "the cell document's runtime") : 0;
}

static int
take_images(struct run *run, const json_t *doc, struct err *err)
{
	int r = text_of(doc, "images") == NULL ? 0 : policy_images_parse(text_of(doc, "images"), &run->images, err);

	return r < 0 ? err_wrap(err, "the cell document's images") : 0;
}

static int
take_state(struct run *run, const json_t *state, struct err *err)
{
	const char *busy = text_of(state, "on_busy"), *guards = text_of(state, "guards");
	const char *path = text_of(state, "path");
	OWN(freep) char *text = str_format("%s%s%s", text_of(state, "name"), path != NULL ? ":" : "", path != NULL ? path : "");
	int r = text == NULL ? no_memory(err) : run_add_state(run, text, err);
	struct policy_state *s = &run->states.at[run->states.n - 1];

	if (r < 0)
		return r;
	for (unsigned i = 0; busy != NULL && policy_state_busy_words[i] != NULL; i++)
		if (strcmp(busy, policy_state_busy_words[i]) == 0)
			s->on_busy = (enum policy_state_busy)i;
	if (guards != NULL && !policy_state_guards_ok(guards))
		return err_set(err, EINVAL, "the cell document's guards of the state '%s' are malformed", s->name);
	snprintf(s->guards, sizeof(s->guards), "%s", guards != NULL ? guards : "");
	s->every_ms = (uint64_t)json_integer_value(json_object_get(state, "every_ms"));
	s->quiet = json_is_true(json_object_get(state, "quiet"));
	run->state_commits[run->states.n - 1] = text_of(state, "commit");
	return 0;
}

static int
take_all(struct run *run, const json_t *doc, struct err *err)
{
	const json_t *policy = json_object_get(doc, "policy"), *image = json_object_get(doc, "image");
	int r = take_command(run, json_object_get(doc, "command"), err);

	run->policy_name = text_of(policy, "name");
	run->policy_text = text_of(policy, "text");
	run->authorities = text_of(doc, "authorities");
	run->spec.waits = json_is_true(json_object_get(doc, "waits"));
	run->doc_tty = json_is_true(json_object_get(doc, "terminal"));
	r = r == 0 ? take_limits(&run->spec.limits, json_object_get(doc, "limits")) : r;
	r = r == 0 ? take_env(run, json_object_get(doc, "env"), err) : r;
	r = r == 0 ? take_each(run, json_object_get(doc, "grants"), take_grant, err) : r;
	r = r == 0 ? take_each(run, json_object_get(doc, "volumes"), take_volume, err) : r;
	r = r == 0 ? take_each(run, json_object_get(doc, "caches"), take_cache, err) : r;
	r = r == 0 ? take_each(run, json_object_get(doc, "ports"), take_port, err) : r;
	r = r == 0 ? take_each(run, json_object_get(doc, "within"), take_layer, err) : r;
	r = r == 0 ? take_each(run, json_object_get(doc, "states"), take_state, err) : r;
	r = r == 0 ? take_boundary(run, doc, err) : r;
	r = r == 0 ? take_images(run, doc, err) : r;
	r = r == 0 ? take_options(run, doc, err) : r;
	if (r == 0 && image != NULL)
		r = run_take_image(run, text_of(image, "name"), text_of(image, "digest"), err);
	if (r == 0 && json_object_get(doc, "bundle") != NULL)
		r = take_bundle(run, json_object_get(doc, "bundle"), err);
	r = r == 0 ? take_starts(run, json_object_get(doc, "starts"), err) : r;
	return r == 0 && json_object_get(doc, "input") != NULL ?
	       take_input(run, json_object_get(doc, "input"), err) : r;
}

/* FILE may be a pipe: run --doc <(...). */
static int
read_doc(const char *file, json_t **ret_doc, struct err *err)
{
	OWN(closep) int fd = trust_open(TRUST_DOCUMENT, file, err);
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_SETFL, 0) < 0)
		return err_errno(err, "cannot read '%s'", file);
	r = read_open(fd, file, CELL_DOC_MAX, &text, &len, err);
	if (r < 0)
		return r;
	r = cell_doc_read(text, len, ret_doc, err);
	return r < 0 ? err_wrap(err, "--doc '%s'", file) : 0;
}

int
run_take_doc(struct run *run, const char *file, struct err *err)
{
	int r;

	if (run->doc != NULL)
		return err_set(err, EINVAL, "--doc is given twice: a cell has one document");
	r = read_doc(file, &run->doc, err);
	if (r < 0)
		return r;
	run->doc_file = file;
	r = take_all(run, run->doc, err);
	return r < 0 ? err_wrap(err, "--doc '%s'", file) : run_add_source(run, file, err);
}

/* ---- printing one ---- */

/* An absolute path. */
static json_t *
path_of(const char *path)
{
	OWN(freep) char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	OWN(freep) char *whole = path[0] == '/' ? strdup(path) : here == NULL ? NULL :
	                         str_format("%s/%s", here, path);

	return whole == NULL ? NULL : json_string(whole);
}

static int
not_text(struct err *err, const char *what, const char *of)
{
	return err_set(err, EILSEQ, "the cell has no document: %s '%s' is not UTF-8", what, of);
}

static int
put_text(json_t *doc, const char *name, const char *text, struct err *err)
{
	if (text == NULL || text[0] == '\0')
		return 0;
	return json_object_set_new(doc, name, json_string(text)) < 0 ? not_text(err, name, text) : 0;
}

static int
put_words(json_t *doc, const char *name, char *const *words, struct err *err)
{
	json_t *list = words == NULL ? NULL : json_array();

	for (; words != NULL && *words != NULL; words++)
		if (json_array_append_new(list, json_string(*words)) < 0) {
			json_decref(list);
			return not_text(err, "the word", *words);
		}
	if (list != NULL && json_array_size(list) > 0)
		return json_object_set_new(doc, name, list) < 0 ? no_memory(err) : 0;
	json_decref(list);
	return 0;
}

/* Appends ITEM, which may be NULL, to the list NAME; makes the list if it is missing. */
static int
append(json_t *doc, const char *name, json_t *item)
{
	json_t *list = json_object_get(doc, name);

	if (list == NULL && json_object_set_new(doc, name, list = json_array()) < 0)
		return -ENOMEM;
	return json_array_append_new(list, item);
}

static int
put_env(json_t *doc, const struct run *run, struct err *err)
{
	const char *file = NULL;

	for (size_t i = 0; i < run->n_given; i++) {
		const struct run_variable *v = &run->given[i];
		int len = (int)strcspn(v->entry, "=");
		json_t *item;

		/* All variables of a file are one item, so that no value is here. */
		if (v->file != NULL && v->file == file)
			continue;
		file = v->file;
		item = file != NULL ? json_pack("{s:o}", "file", path_of(file)) :
		       json_pack("{s:s%,s:s}", "name", v->entry, (size_t)len, "value", v->entry + len + 1);
		if (append(doc, "env", item) < 0)
			return err_set(err, EILSEQ, "the cell has no document: the value of %.*s is not UTF-8", len,
			               v->entry);
	}
	return 0;
}

static int
put_grants(json_t *doc, const struct run *run, struct err *err)
{
	for (size_t i = 0; i < run->spec.n_grants; i++) {
		const struct cell_grant *g = &run->spec.grants[i];
		size_t k = 0;
		json_t *item;

		/* It comes with its workspace. */
		if (g->git_dir)
			continue;
		while (accesses[k].access != g->access)
			k++;
		item = run->blobs[i] != NULL ?
		       json_pack("{s:s,s:s}", "blob", run->blobs[i], "cell", g->cell) : g->workspace ?
		       json_pack("{s:s,s:s,s:b}", "access", accesses[k].name, "host", g->host, "workspace", 1) :
		       json_pack("{s:s,s:s,s:s}", "access", accesses[k].name, "cell", g->cell, "host", g->host);
		if (append(doc, "grants", item) < 0)
			return not_text(err, "the path", g->host);
	}
	return 0;
}

static int
put_volumes(json_t *doc, const struct run *run, struct err *err)
{
	for (size_t i = 0; i < run->volumes.n; i++) {
		const struct policy_volume *v = &run->volumes.at[i];
		OWN(freep) char *name = str_format("%s%s%s", v->name, v->label[0] != '\0' ? "@" : "", v->label);

		if (name == NULL)
			return no_memory(err);
		if (append(doc, "volumes", json_pack("{s:s,s:s,s:s}", "access", v->writes ? "rw" : "ro", "cell", v->path, "name",
		                                     name)) < 0)
			return not_text(err, "the path", v->path);
	}
	return 0;
}

/* Without a version, each run has the newest. */
static int
put_caches(json_t *doc, const struct run *run, struct err *err)
{
	for (size_t i = 0; i < run->caches.n; i++) {
		const struct policy_volume *c = &run->caches.at[i];
		OWN(freep) char *name = str_format("%s%s%s", c->name, c->label[0] != '\0' ? "@" : "", c->label);

		if (name == NULL)
			return no_memory(err);
		if (append(doc, "caches", json_pack("{s:s,s:s*}", "name", name, "cell", c->path[0] != '\0' ? c->path : NULL)) < 0)
			return not_text(err, "the path", c->path);
	}
	return 0;
}

static int
put_limits(json_t *doc, const struct run *run, struct err *err)
{
	OWN(json_decrefp) json_t *list = json_object();

	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		uint64_t value = *limit_of(&run->asked, i);

		if (limits[i].asked != 0 ? (run->asked.asked & limits[i].asked) == 0 : value == 0)
			continue;
		if (value > INT64_MAX ||
		    json_object_set_new(list, limits[i].name, json_integer((json_int_t)value)) < 0)
			return err_set(err, ERANGE, "the limit '%s' is too large for a document", limits[i].name);
	}
	return json_object_size(list) > 0 && json_object_set(doc, "limits", list) < 0 ? no_memory(err) : 0;
}

static int
put_ports(json_t *doc, const struct run *run, struct err *err)
{
	for (size_t i = 0; i < run->spec.n_ports; i++) {
		json_t *item = json_pack("{s:i}", "cell", (int)run->spec.ports[i].cell);

		if (append(doc, "ports", item) < 0 || (run->spec.ports[i].host != 0 &&
		    json_object_set_new(item, "host", json_integer(run->spec.ports[i].host)) < 0))
			return no_memory(err);
	}
	return 0;
}

/* Without their commits: each run has the newest. */
static int
put_states(json_t *doc, const struct run *run, struct err *err)
{
	for (size_t i = 0; i < run->states.n; i++) {
		const struct policy_state *s = &run->states.at[i];
		json_t *item = json_pack("{s:s,s:s*,s:s*,s:s,s:s*,s:o*,s:o*}", "name", s->name,
		                         "path", s->path[0] != '\0' ? s->path : NULL,
		                         "guards", s->guards[0] != '\0' ? s->guards : NULL,
		                         "on_busy", policy_state_busy_words[s->on_busy], "commit", run->state_commits[i],
		                         "every_ms", s->every_ms > 0 ? json_integer((json_int_t)s->every_ms) : NULL,
		                         "quiet", s->quiet ? json_true() : NULL);

		if (append(doc, "states", item) < 0)
			return not_text(err, "the state", s->name);
	}
	return 0;
}

/* The rules of all options and files as one text. */
static int
put_policy(json_t *doc, const struct run *run, struct err *err)
{
	const char *name = run->policy_name != NULL ? run->policy_name :
	                   run->policy_file != NULL ? run->policy_file :
	                   run->policy_found ? POLICY_CLI_FILE : UNNAMED;
	OWN(json_decrefp) json_t *list = json_array();
	OWN(buf_free) struct buf b;
	int r;

	buf_init(&b, POLICY_FILE_MAX);
	if (run->spec.has_policy) {
		policy_source_put(&b, &run->source);
		if (buf_failed(&b) ||
		    json_object_set_new(doc, "policy", json_pack("{s:s,s:s%}", "name", name, "text",
		                                                 (const char *)b.data, b.len)) < 0)
			return err_set(err, E2BIG, "the policy does not fit a document");
		buf_reset(&b);
		r = run_read_authorities(run, &b, err);
		if (r == 0 && b.len > 0 &&
		    json_object_set_new(doc, "authorities", json_stringn((const char *)b.data, b.len)) < 0)
			r = err_set(err, EILSEQ, "the files of --ca are not UTF-8");
		if (r < 0)
			return r;
	}
	r = run_put_within(run, list, err);
	return r == 0 && json_array_size(list) > 0 && json_object_set(doc, "within", list) < 0 ?
	       no_memory(err) : r;
}

static int
put_input(json_t *doc, const struct run *run, struct err *err)
{
	json_t *input = run->input_file == NULL ? NULL : run->input_blob != NULL ?
	                json_pack("{s:s}", "blob", run->input_blob) :
	                json_pack("{s:o}", "host", path_of(run->input_file));

	return run->input_file != NULL && json_object_set_new(doc, "input", input) < 0 ?
	       not_text(err, "the path", run->input_file) : 0;
}

/* An image by its digest, which says what is in it. */
static int
put_root(json_t *doc, const struct run *run, struct err *err)
{
	const struct cell_image *image = &run->spec.image;
	char digest[HASH_NAME + 1];
	json_t *value;

	if (run->spec.bare && run->spec.root)
		return err_set(err, EINVAL, "the cell has no document: it cannot have both --root and --root none");
	if ((run->spec.bare && json_object_set_new(doc, "root", json_string("none")) < 0) ||
	    (run->spec.root && json_object_set_new(doc, "root", json_true()) < 0))
		return no_memory(err);
	if (image->name == NULL)
		return put_text(doc, "rootfs", run->spec.rootfs, err);
	hash_name(image->digest, digest);
	value = image->name[0] == '\0' ? json_pack("{s:s}", "digest", digest) :
	        json_pack("{s:s,s:s}", "digest", digest, "name", image->name);
	return json_object_set_new(doc, "image", value) < 0 ? no_memory(err) : 0;
}

/* It comes from a document alone. */
static int
put_given(json_t *doc, const char *name, const struct run *run, struct err *err)
{
	json_t *value = run->doc == NULL ? NULL : json_object_get(run->doc, name);

	return value != NULL && json_object_set(doc, name, value) < 0 ? no_memory(err) : 0;
}

static int
describe(const struct run *run, json_t *doc, struct err *err)
{
	const struct cell_spec *spec = &run->spec;
	char boundary[POLICY_BOUNDARY_TEXT_MAX + 1];
	int r = json_object_set_new(doc, "version", json_integer(CELL_DOC_VERSION)) < 0 ? no_memory(err) :
	        put_root(doc, run, err);

	if (r == 0 && run->boundary.is_set)
		r = put_text(doc, "boundary", policy_boundary_text(&run->boundary, boundary), err);
	if (r == 0 && policy_boundary_has_runtime(&run->boundary))
		r = put_text(doc, "runtime", run->boundary.runtime, err);
	r = r == 0 ? put_text(doc, "chain", spec->chain, err) : r;
	r = r == 0 ? put_text(doc, "principal", spec->principal, err) : r;
	if (r == 0 && strcmp(spec->hostname, "cell") != 0)
		r = put_text(doc, "hostname", spec->hostname, err);
	if (r == 0 && spec->profile == CELL_PROFILE_NESTED)
		r = put_text(doc, "profile", "nested", err);
	if (r == 0 && run->record != POLICY_RECORD_UNSAID)
		r = put_text(doc, "record", run_record_name(run->record), err);
	for (size_t i = 0; r == 0 && i < run->n_secrets; i++)
		r = append(doc, "secrets", json_string(run->secrets[i])) < 0 ? no_memory(err) : 0;
	/* A cell without a command has an empty one. */
	r = r == 0 && json_object_set_new(doc, "command", json_array()) < 0 ? no_memory(err) : r;
	r = r == 0 ? put_words(doc, "command", spec->argv, err) : r;
	r = r == 0 ? put_words(doc, "setups", spec->setups, err) : r;
	r = r == 0 ? put_env(doc, run, err) : r;
	r = r == 0 ? put_grants(doc, run, err) : r;
	r = r == 0 ? put_volumes(doc, run, err) : r;
	r = r == 0 ? put_caches(doc, run, err) : r;
	r = r == 0 ? put_limits(doc, run, err) : r;
	r = r == 0 ? put_ports(doc, run, err) : r;
	r = r == 0 ? put_states(doc, run, err) : r;
	r = r == 0 ? put_policy(doc, run, err) : r;
	r = r == 0 ? put_given(doc, "bundle", run, err) : r;
	r = r == 0 ? put_given(doc, "images", run, err) : r;
	r = r == 0 ? put_given(doc, "starts", run, err) : r;
	r = r == 0 ? put_given(doc, "terminal", run, err) : r;
	r = r == 0 ? put_given(doc, "waits", run, err) : r;
	return r == 0 ? put_input(doc, run, err) : r;
}

int
run_print_doc(const struct run *run, struct err *err)
{
	OWN(json_decrefp) json_t *doc = json_object();
	OWN(freep) char *text = NULL;
	size_t len;
	int r;

	/* It would be readable by everybody who gets the document. */
	if (run->as_it_is != NULL)
		return err_set(err, EPERM, "a document has no keys: use `cloister secret add %.*s`, and "
		               "-s instead of -e", (int)strcspn(run->as_it_is, "="), run->as_it_is);
	r = doc == NULL ? no_memory(err) : describe(run, doc, err);
	r = r == 0 ? cell_doc_write(doc, &text, &len, err) : r;
	if (r < 0)
		return r;
	return puts(text) < 0 || fflush(stdout) != 0 ? err_errno(err, "cannot write the document") : 0;
}
