/* observe.c - compares what a cell did during a call with what the lock says of the tool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "canon/canon.h"
#include "policy/policy_flat.h"
#include "policy/policy_suggest.h"
#include "policy/policy_yaml.h"
#include "tools/check.h"
#include "tools/scope.h"

#define SEEN_MAX 4096                   /* requests of which a scope is proposed */

struct judging {
	struct check_findings *f;
	const struct observation *o;
	struct scope scope;
	bool has_scope, read_only, open_world;
	bool recorded;                  /* the witness saw its processes */
	json_t *changed;                /* paths that were judged: an object, as a set */
};

/* ---- records ---- */

static const char *
text_of(const json_t *event, const char *name)
{
	const char *text = json_string_value(json_object_get(event, name));

	return text != NULL ? text : "";
}

static unsigned long long
number_of(const json_t *event, const char *name)
{
	const json_int_t n = json_integer_value(json_object_get(event, name));

	return n > 0 ? (unsigned long long)n : 0;
}

static bool
is_type(const json_t *event, const char *type)
{
	return strcmp(text_of(event, "type"), type) == 0;
}

/* Calls EACH with every event; a line that is none is passed over, and counted. */
static size_t
each_event(const char *events, size_t len, void (*each)(void *arg, const json_t *event), void *arg)
{
	size_t bad = 0;

	while (len > 0) {
		const char *end = memchr(events, '\n', len);
		const size_t n = end != NULL ? (size_t)(end - events) : len;
		OWN(json_decrefp) json_t *event = n > 0 ? canon_value(events, n) : NULL;

		bad += n > 0 && !json_is_object(event);
		if (json_is_object(event))
			each(arg, event);
		events += n + (end != NULL);
		len -= n + (end != NULL);
	}
	return bad;
}

/* ---- judging ---- */

static void
judge_http(struct judging *j, const json_t *event)
{
	/* As the server made it: what stands in for the upstream has another host. */
	const bool is_moved = *text_of(event, "made_host") != '\0';
	const char *method = text_of(event, "method"), *path = text_of(event, "path");
	const char *host = text_of(event, is_moved ? "made_host" : "host");
	const uint16_t port = (uint16_t)number_of(event, is_moved ? "made_port" : "port");
	const bool tls = strcmp(text_of(event, "scheme"), "http") != 0;
	bool reads = false, fits;

	fits = j->has_scope && scope_allows(&j->scope, method, host, port, *path != '\0' ? path : "/", tls, &reads);
	if (j->read_only && !scope_is_reading(method) && !reads)
		check_add(j->f, CHECK_WROTE, j->o->server, j->o->name, "the tool is read_only, and sent %s %s://%s%s", method,
		             tls ? "https" : "http", host, path);
	if (fits || !j->has_scope)
		return;
	if (!j->open_world && !scope_has_host(&j->scope, host))
		check_add(j->f, CHECK_LEFT_HOSTS, j->o->server, j->o->name, "the tool is not open_world, and went to '%s'", host);
	else
		check_add(j->f, CHECK_LEFT_SCOPE, j->o->server, j->o->name, "its scope does not allow %s %s://%s%s", method,
		             tls ? "https" : "http", host, path);
}

static void
judge_raw(struct judging *j, const json_t *event)
{
	const char *host = text_of(event, "host");
	const unsigned port = (unsigned)number_of(event, "port");

	if (!j->has_scope || scope_allows_raw(&j->scope, is_type(event, "tls") ? POLICY_TLS : POLICY_TCP, host, (uint16_t)port))
		return;
	check_add(j->f, j->open_world || scope_has_host(&j->scope, host) ? CHECK_LEFT_SCOPE : CHECK_LEFT_HOSTS, j->o->server,
	             j->o->name, "its scope does not allow the connection to '%s', port %u", host, port);
}

/* A name alone can carry data out. */
static void
judge_name(struct judging *j, const json_t *event)
{
	const char *host = text_of(event, "host");

	if (!j->has_scope || *host == '\0' || scope_has_host(&j->scope, host))
		return;
	check_add(j->f, j->open_world ? CHECK_LEFT_SCOPE : CHECK_LEFT_HOSTS, j->o->server, j->o->name,
	             "its scope does not have the host '%s', whose name it looked up", host);
}

static void
judge_change(struct judging *j, const char *act, const char *path)
{
	if (json_object_get(j->changed, path) != NULL)
		return;
	(void)json_object_set_new(j->changed, path, json_true());
	if (j->read_only)
		check_add(j->f, CHECK_WROTE, j->o->server, j->o->name, "the tool is read_only, and changed a file (%s): %s", act,
		             path);
	else if (j->has_scope && !scope_has_path(j->scope.write, path, j->o->folder, j->o->home))
		check_add(j->f, CHECK_LEFT_SCOPE, j->o->server, j->o->name, "its scope does not let it change %s (%s)", path, act);
}

/* Files outside the grants are the cell's own, and end with it. */
static void
judge_file(struct judging *j, const json_t *event)
{
	if (*text_of(event, "grant") == '\0' || strcmp(text_of(event, "act"), "read") == 0)
		return;
	judge_change(j, text_of(event, "act"), text_of(event, "path"));
	if (*text_of(event, "to") != '\0')
		judge_change(j, text_of(event, "act"), text_of(event, "to"));
}

static bool
has_program(const struct node *list, const char *path)
{
	const char *base = strrchr(path, '/');

	for (size_t i = 0; i < list->n; i++)
		if (list->items[i]->kind == NODE_SCALAR && (strcmp(list->items[i]->text, path) == 0 ||
		    (base != NULL && strcmp(list->items[i]->text, base + 1) == 0)))
			return true;
	return false;
}

/* Programs that started the server are not the tool's. */
static void
judge_exec(struct judging *j, const json_t *event)
{
	const char *path = text_of(event, "path");

	if (!j->has_scope || j->scope.programs == NULL || *text_of(event, "error") != '\0' ||
	    strcmp(text_of(event, "time"), j->o->called) < 0 || has_program(j->scope.programs, path))
		return;
	check_add(j->f, CHECK_LEFT_SCOPE, j->o->server, j->o->name, "its scope does not let it run %s", path);
}

static void
judge_record(struct judging *j, const json_t *event)
{
	const char *by = text_of(event, "by");

	j->recorded |= strcmp(text_of(event, "level"), "off") != 0 && *by != '\0' && strcmp(by, "none") != 0;
}

static void
judge_lost(struct judging *j, const json_t *event)
{
	check_add(j->f, CHECK_UNSEEN, j->o->server, j->o->name, "%llu records of the call were lost (%s)",
	             number_of(event, "count"), text_of(event, "what"));
}

static void
judge_event(void *arg, const json_t *event)
{
	static const struct {
		const char *type;
		void (*judge)(struct judging *j, const json_t *event);
	} types[] = {
		{ "http", judge_http }, { "tcp", judge_raw }, { "tls", judge_raw }, { "dns", judge_name }, { "file", judge_file },
		{ "exec", judge_exec }, { "record", judge_record }, { "lost", judge_lost },
	};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (is_type(event, types[i].type))
			types[i].judge(arg, event);
}

/* Files as they are when the cell has ended: the witness may have missed what changed them. */
static void
judge_changes(struct judging *j)
{
	OWN(json_decrefp) json_t *changes = NULL;
	char path[1024];
	json_t *change;
	size_t i;

	if (j->o->n_changes == 0)
		return;
	changes = canon_value(j->o->changes, j->o->n_changes);
	if (!json_is_array(changes))
		check_add(j->f, CHECK_UNSEEN, j->o->server, j->o->name, "the changes to its files could not be read");
	json_array_foreach(changes, i, change) {
		snprintf(path, sizeof(path), "%s/%s", text_of(change, "workspace"), text_of(change, "path"));
		judge_change(j, text_of(change, "change"), path);
	}
}

void
check_observation(struct check_findings *f, const struct observation *o)
{
	const struct definition_hints hints = lock_hints(o->tool);
	const struct node *scope = lock_scope(o->tool);
	struct judging j = { .f = f, .o = o, .read_only = (hints.values & DEFINITION_READ_ONLY) != 0,
	                     .open_world = (hints.values & DEFINITION_OPEN_WORLD) != 0, .changed = json_object() };

	/* Without one, that is a finding already. */
	j.has_scope = scope != NULL && scope_read(scope, &j.scope, NULL) == 0;
	if (each_event(o->events, o->n_events, judge_event, &j) > 0)
		check_add(f, CHECK_UNSEEN, o->server, o->name, "the record of the call has lines that cannot be read");
	if (!j.recorded)
		check_add(f, CHECK_UNSEEN, o->server, o->name, "this machine does not record what processes do: see `cloister doctor`");
	judge_changes(&j);
	scope_free(&j.scope);
	json_decref(j.changed);
}

/* ---- proposals ---- */

struct proposal {
	struct policy_seen *seen;
	json_t *kept;                   /* events whose strings SEEN borrows */
	size_t n;
	json_t *writes, *reads, *secrets;       /* paths, and names: objects, as sets */
};

static void
propose_event(void *arg, const json_t *event)
{
	struct proposal *p = arg;
	const char *verdict = text_of(event, "verdict");
	json_t *secret;
	size_t i;

	json_array_foreach(json_object_get(event, "secrets"), i, secret)
		if (is_type(event, "http") && json_is_string(secret))
			(void)json_object_set_new(p->secrets, json_string_value(secret), json_true());
	if (is_type(event, "file") && *text_of(event, "grant") != '\0')
		(void)json_object_set_new(strcmp(text_of(event, "act"), "read") == 0 ? p->reads : p->writes,
		                          text_of(event, "path"), json_true());
	if (p->n == SEEN_MAX || strcmp(verdict, "allow") != 0 || !is_type(event, "http") ||
	    json_array_append(p->kept, (json_t *)(uintptr_t)event) < 0)
		return;
	p->seen[p->n++] = (struct policy_seen){ .protocol = POLICY_HTTP, .method = text_of(event, "method"),
		.host = text_of(event, "host"), .path = text_of(event, "path"), .port = (uint16_t)number_of(event, "port"),
		.plain = strcmp(text_of(event, "scheme"), "http") == 0 };
}

static void
put_words(struct buf *b, const char *key, json_t *words, const char **comma)
{
	const char *word;
	json_t *unused;
	bool first = true;

	if (json_object_size(words) == 0)
		return;
	buf_put_text(b, *comma);
	buf_put_text(b, key);
	buf_put_text(b, ": [");
	json_object_foreach(words, word, unused) {
		buf_put_text(b, first ? "" : ", ");
		policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .text = (char *)(uintptr_t)word });
		first = false;
	}
	buf_put_text(b, "]");
	*comma = ", ";
}

static int
put_egress(struct buf *b, const struct proposal *p, const char **comma, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(node_freep) struct node *root = NULL;
	const struct node *egress;
	int r;

	if (p->n == 0)
		return 0;
	r = policy_write_for(p->seen, p->n, "scope", &text, err);
	r = r == 0 ? node_parse("scope", text, strlen(text), &root, err) : r;
	if (r < 0)
		return r;
	egress = node_get(root, "egress");
	if (egress != NULL && egress->kind == NODE_LIST && egress->n > 0) {
		buf_put_text(b, "egress: ");
		policy_flat_put_node(b, egress);
		*comma = ", ";
	}
	return 0;
}

/* What a person wrote, and no record shows. */
static void
put_old(struct buf *b, const struct node *old, const char *key, const char **comma)
{
	const struct node *value = old != NULL && old->kind == NODE_MAP ? node_get(old, key) : NULL;

	if (value == NULL)
		return;
	buf_put_text(b, *comma);
	buf_put_text(b, key);
	buf_put_text(b, ": ");
	policy_flat_put_node(b, value);
	*comma = ", ";
}

int
check_put_scope(struct buf *b, const struct node *old, const char *events, size_t n_events, struct err *err)
{
	OWN(freep) struct policy_seen *seen = calloc(SEEN_MAX, sizeof(*seen));
	OWN(json_decrefp) json_t *kept = json_array(), *writes = json_object(), *reads = json_object(),
	                           *secrets = json_object();
	struct proposal p = { .seen = seen, .kept = kept, .writes = writes, .reads = reads, .secrets = secrets };
	const char *comma = "";
	int r;

	if (seen == NULL || kept == NULL || writes == NULL || reads == NULL || secrets == NULL)
		return err_set(err, ENOMEM, "out of memory");
	(void)each_event(events, n_events, propose_event, &p);
	buf_put_text(b, "{");
	r = put_egress(b, &p, &comma, err);
	put_words(b, "read", reads, &comma);
	put_words(b, "write", writes, &comma);
	put_words(b, "secrets", secrets, &comma);
	put_old(b, old, "programs", &comma);
	put_old(b, old, "time", &comma);
	buf_put_text(b, "}");
	return r < 0 ? r : buf_failed(b) ? err_set(err, E2BIG, "the scope would be too large") : 0;
}
