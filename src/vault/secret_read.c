/* secret_read.c - reads secrets from YAML.
 *
 * A secret's scope is an allowing rule, and is read as one: hosts, ports, methods and paths have
 * the same meaning as in a policy. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "credential/shape.h"
#include "policy/policy_load.h"
#include "sign/sign_hmac.h"
#include "sign/sign_options.h"
#include "vault/catalogue.h"
#include "vault/placeholder.h"
#include "vault/secret.h"
#include "vault/source.h"

enum key { KEY_LIKE, KEY_SCHEME, KEY_SHAPE, KEY_FROM, KEY_EXPIRES, KEY_MEMBERS, KEY_ID, KEY_HOSTS,
           KEY_PORTS, KEY_METHODS, KEY_PATHS, KEY_IN, KEY_WITH, KEY_ENV, KEY_PLAIN, KEY_CAPTURES,
           KEY_FILES, KEYS };
static const char *const key_names[KEYS + 1] = { "like", "scheme", "shape", "from", "expires",
	"members", "id", "hosts", "ports", "methods", "paths", "in", "with", "env", "plain",
	"captures", "files", NULL };

struct reading {
	struct secret *s;
	struct policy_draft d;          /* provides its memory and its list readers */
	const struct node *values[KEYS];
	bool plain;
};

/* ---- scalars ---- */

static int
read_text(struct reading *r, enum key key, const char *what, const char **ret_text)
{
	if (r->values[key] == NULL) {
		*ret_text = "";
		return 0;
	}
	return policy_read_text(&r->d, r->values[key], what, ret_text);
}

static int
read_scheme(struct reading *r)
{
	const struct node *node = r->values[KEY_SCHEME];
	const char *text = "swap", *names[32] = { NULL }, *nearest;
	int e = node != NULL ? policy_read_text(&r->d, node, "a scheme", &text) : 0;

	if (e < 0)
		return e;
	r->s->scheme = secret_scheme_find(text);
	if (r->s->scheme != NULL)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(names) - 1 && secret_scheme_at(i) != NULL; i++)
		names[i] = secret_scheme_at(i)->name;
	nearest = text_nearest(text, names);
	return node_err(r->d.err, node, "there is no scheme '%.32s'%s%s%s", text,
	                nearest != NULL ? ": did you mean '" : ": swap, basic, sigv4, azure-sharedkey, "
	                "hmac, jwt, oauth1, message, mtls, webhook, postgres, redis or ssh",
	                nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static int
read_env(struct reading *r)
{
	const char *env;
	int e = read_text(r, KEY_ENV, "a variable", &env);

	if (e < 0)
		return e;
	for (size_t i = 0; env[i] != '\0'; i++)
		if ((!isalnum((unsigned char)env[i]) && env[i] != '_') || i >= SECRET_NAME_MAX ||
		    isdigit((unsigned char)env[0]))
			return node_err(r->d.err, r->values[KEY_ENV], "'%.64s' is not the name of a variable",
			                env);
	r->s->env = env;
	return 0;
}

static int
fix_format(struct policy_draft *d, const struct node *node, char *text)
{
	const char *names[PLACEHOLDER_FORMATS + 1] = { NULL }, *nearest;

	if (placeholder_file_find(text) != NULL)
		return 0;
	for (size_t i = 0; i < PLACEHOLDER_FORMATS; i++)
		names[i] = placeholder_files[i].name;
	nearest = text_nearest(text, names);
	return node_err(d->err, node, "there is no format '%.32s' of files%s%s%s", text,
	                nearest != NULL ? ": did you mean '" : ": " PLACEHOLDER_FORMAT_NAMES,
	                nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static int
read_files(struct reading *r)
{
	const struct node *node = r->values[KEY_FILES];
	int e = node == NULL ? 0 : policy_read_list(&r->d, node, "a format", fix_format, &r->s->files);

	return e == 0 && r->s->files.n > SECRET_LIST_MAX ?
	       node_err(r->d.err, node, "a secret takes at most %d of these", SECRET_LIST_MAX) : e;
}

static int
read_from(struct reading *r)
{
	struct err err = {0};
	int e = read_text(r, KEY_FROM, "where the value comes from", &r->s->from);

	if (e == 0 && *r->s->from != '\0' && source_check(r->s->from, &err) < 0)
		return node_err(r->d.err, r->values[KEY_FROM], "%s", err.text);
	return e;
}

/* "1h", or a pointer to the member of the output with the expiry. */
static int
read_expires(struct reading *r)
{
	const struct node *node = r->values[KEY_EXPIRES];
	const char *text = "";
	uint64_t ms;
	int e = read_text(r, KEY_EXPIRES, "when it ends", &text);

	r->s->expires_member = "";
	if (e < 0 || node == NULL)
		return e;
	if (strncmp(r->s->from, "cmd:", 4) != 0 && strncmp(r->s->from, "file:", 5) != 0)
		return node_err(r->d.err, node, "only what comes from a command or a file is fetched "
		                "again when it ends: say `from: cmd:...` (--from)");
	if (*text == '/') {
		r->s->expires_member = text;
		return 0;
	}
	if (num_parse_duration(text, &ms, NULL) < 0 || ms < 1000 || ms / 1000 > SECRET_EXPIRES_MAX)
		return node_err(r->d.err, node, "'%.32s' is neither a time such as 1h nor the place of "
		                "one in JSON such as /expiration", text);
	r->s->expires = (uint32_t)(ms / 1000);
	return 0;
}

static int
read_plain(struct reading *r)
{
	return r->values[KEY_PLAIN] == NULL ? 0 :
	       policy_read_bool(&r->d, r->values[KEY_PLAIN], "plain", &r->plain);
}

/* ---- shapes and members: one for the secret, or a map by field ---- */

static int
fix_shape(struct policy_draft *d, const struct node *node, char *text)
{
	struct shape shape;
	struct err err = {0};

	return shape_parse(text, &shape, &err) == 0 ? 0 : node_err(d->err, node, "%s", err.text);
}

static int
find_field(struct reading *r, const struct node *key, const char *where, size_t *ret_field)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		if (strcmp(key->text, secret_field_names[i]) == 0) {
			*ret_field = i;
			return 0;
		}
	}
	return policy_read_unknown(key, secret_field_names, where, r->d.err);
}

static int
read_shapes(struct reading *r)
{
	const struct node *node = r->values[KEY_SHAPE];
	size_t field = SECRET_SECRET;
	int e = 0;

	if (node == NULL)
		return 0;
	if (node->kind != NODE_MAP)
		return policy_read_list(&r->d, node, "a shape", fix_shape, &r->s->shapes[SECRET_SECRET]);
	for (size_t i = 0; e == 0 && i < node->n; i++) {
		e = find_field(r, node->items[i], "in `shape`", &field);
		e = e == 0 ? policy_read_list(&r->d, node->values[i], "a shape", fix_shape,
		                              &r->s->shapes[field]) : e;
	}
	return e;
}

static int
read_members(struct reading *r)
{
	const struct node *node = r->values[KEY_MEMBERS];
	size_t field = 0;
	int e = 0;

	for (size_t i = 0; i < SECRET_FIELDS; i++)
		r->s->members[i] = "";
	if (node == NULL)
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(r->d.err, node, "members are a map: {secret: /token}");
	for (size_t i = 0; e == 0 && i < node->n; i++) {
		e = find_field(r, node->items[i], "in `members`", &field);
		e = e == 0 ? policy_read_text(&r->d, node->values[i], "a place in JSON",
		                              &r->s->members[field]) : e;
		if (e == 0 && *r->s->members[field] != '/')
			return node_err(r->d.err, node->values[i], "a place in JSON begins with '/': /%.64s",
			                r->s->members[field]);
	}
	return e;
}

/* ---- places ---- */

static const struct {
	const char *name;
	enum secret_place place;
} place_names[] = {
	{ "header", SECRET_IN_HEADER }, { "basic-user", SECRET_IN_BASIC_USER },
	{ "basic-password", SECRET_IN_BASIC_PASSWORD }, { "query", SECRET_IN_QUERY },
	{ "path", SECRET_IN_PATH }, { "body", SECRET_IN_BODY }, { "websocket", SECRET_IN_WEBSOCKET },
};

/* "header:x-api-key" is added to *names.  Without a name any field counts, so the list must be
 * empty. */
static int
take_place(struct reading *r, const struct node *node, char *text, const char **headers,
           const char **params)
{
	char *name = strchr(text, ':');
	struct policy_list *list;
	size_t i = 0;

	if (name != NULL)
		*name++ = '\0';
	while (i < ARRAY_LEN(place_names) && strcmp(place_names[i].name, text) != 0)
		i++;
	if (i == ARRAY_LEN(place_names))
		return node_err(r->d.err, node, "there is no place '%.32s': header, basic-user, "
		                "basic-password, query, path, body or websocket", text);
	list = place_names[i].place == SECRET_IN_HEADER ? &r->s->headers : &r->s->params;
	if (name != NULL && (*name == '\0' || (place_names[i].place != SECRET_IN_HEADER &&
	                                       place_names[i].place != SECRET_IN_QUERY)))
		return node_err(r->d.err, node, "only a header or a parameter of the query is named: "
		                "header:x-api-key, query:key");
	if ((name == NULL) != (list->n == 0) && (r->s->places & place_names[i].place) != 0)
		return node_err(r->d.err, node, "say '%s' with names or without, not both", text);
	r->s->places |= place_names[i].place;
	if (name == NULL)
		return 0;
	for (char *c = name; *c != '\0' && place_names[i].place == SECRET_IN_HEADER; c++) {
		if (!isalnum((unsigned char)*c) && strchr("!#$%&'*+-.^_`|~", *c) == NULL)
			return node_err(r->d.err, node, "'%.64s' is not the name of a header", name);
		*c = (char)tolower((unsigned char)*c);
	}
	(list == &r->s->headers ? headers : params)[list->n++] = name;
	return 0;
}

static int
read_places(struct reading *r)
{
	const struct node *node = r->values[KEY_IN];
	const char **headers, **params;
	struct policy_list list;
	int e;

	r->s->places = node == NULL ? r->s->scheme->places : 0;
	if (node == NULL)
		return 0;
	if (r->s->scheme->raw || r->s->scheme->comes_in)
		return node_err(r->d.err, node, r->s->scheme->raw ? "'%s' is not over HTTP: leave `in` out" :
		                "'%s' knows where it stands: leave `in` out", r->s->scheme->name);
	e = policy_read_list(&r->d, node, "a place", NULL, &list);
	if (e < 0)
		return e;
	headers = policy_alloc(r->d.p, list.n, sizeof(*headers));
	params = policy_alloc(r->d.p, list.n, sizeof(*params));
	if (headers == NULL || params == NULL)
		return policy_read_oom(&r->d);
	if (list.n > SECRET_LIST_MAX)
		return node_err(r->d.err, node, "a secret takes at most %d of these", SECRET_LIST_MAX);
	for (size_t i = 0; e == 0 && i < list.n; i++)
		e = take_place(r, node->kind == NODE_LIST ? node->items[i] : node,
		               (char *)(uintptr_t)list.at[i], headers, params);
	r->s->headers.at = headers;
	r->s->params.at = params;
	return e;
}

/* ---- options of the scheme ---- */

/* The signer will use these options: report errors here, with their line. */
static int
check_with(const struct reading *r)
{
	const struct node *node = r->values[KEY_WITH];
	const struct secret *s = r->s;
	OWN(freep) struct sign_options *options = malloc(sizeof(*options));
	struct err err = {0};
	size_t which = 0;

	if (options == NULL)
		return err_set(r->d.err, ENOMEM, "out of memory");
	if (sign_options_read(s->scheme->name, s->with.at, s->with_values.at, s->with.n, options,
	                      &which, &err) == 0)
		return 0;
	return node_err(r->d.err, node == NULL ? r->d.at : which < node->n ? node->items[which] : node,
	                "%s", err.text);
}

/* `swap` takes no options, except the user for files that name one. */
static int
check_swap(const struct reading *r)
{
	const struct node *node = r->values[KEY_WITH];
	const struct secret *s = r->s;

	if (strcmp(s->scheme->name, "swap") != 0 && strcmp(s->scheme->name, "basic") != 0)
		return 0;
	for (size_t i = 0; i < s->with.n; i++)
		if (s->files.n == 0 || strcmp(s->with.at[i], "user") != 0)
			return node_err(r->d.err, node->items[i], "'%s' has no option '%.32s': leave it "
			                "out, or name the `scheme:` (--scheme) that it is for", s->scheme->name,
			                s->with.at[i]);
	return 0;
}

static int
read_with(struct reading *r)
{
	const struct node *node = r->values[KEY_WITH];
	const char **names, **values;
	int e = 0;

	if (node == NULL)
		return check_with(r);
	if (node->kind != NODE_MAP)
		return node_err(r->d.err, node, "what the scheme is told is a map: {region: eu-west-1}");
	if (node->n > SECRET_LIST_MAX)
		return node_err(r->d.err, node, "a secret takes at most %d of these", SECRET_LIST_MAX);
	names = policy_alloc(r->d.p, node->n, sizeof(*names));
	values = policy_alloc(r->d.p, node->n, sizeof(*values));
	if (names == NULL || values == NULL)
		return policy_read_oom(&r->d);
	for (size_t i = 0; e == 0 && i < node->n; i++) {
		e = policy_read_text(&r->d, node->items[i], "a name", &names[i]);
		e = e == 0 ? policy_read_text(&r->d, node->values[i], "a value", &values[i]) : e;
	}
	if (e < 0)
		return e;
	r->s->with = (struct policy_list){ names, node->n };
	r->s->with_values = (struct policy_list){ values, node->n };
	return check_with(r);
}

/* A typo here could turn off encryption to the server, so it is an error. */
static int
check_tls(const struct reading *r)
{
	const struct node *node = r->values[KEY_WITH];
	bool wire = strcmp(r->s->scheme->name, "postgres") == 0 ||
	            strcmp(r->s->scheme->name, "redis") == 0;

	for (size_t i = 0; wire && i < r->s->with.n; i++)
		if (strcmp(r->s->with.at[i], "tls") != 0 ||
		    (strcmp(r->s->with_values.at[i], "on") != 0 &&
		     strcmp(r->s->with_values.at[i], "off") != 0))
			return node_err(r->d.err, node->items[i], "'%s' is told {tls: on} or {tls: off}, and "
			                "nothing else", r->s->scheme->name);
	return 0;
}

/* ---- scope ---- */

/* A secret for incoming requests needs ports of the cell, and a template that identifies its
 * signature. */
static int
check_coming(struct reading *r)
{
	const char *template = secret_with(r->s, "template");

	if (r->values[KEY_HOSTS] != NULL)
		return node_err(r->d.err, r->values[KEY_HOSTS], "webhooks come to the cell: say `ports:` of "
		                "it, and leave `hosts` out");
	if (r->values[KEY_PORTS] == NULL)
		return node_err(r->d.err, r->d.at, "webhooks come to a port that is published: say `ports:`");
	if (template == NULL || sign_hmac_row(template) == NULL)
		return node_err(r->d.err, r->values[KEY_WITH] != NULL ? r->values[KEY_WITH] : r->d.at,
		                "say whose webhooks they are: `with: {template: github}`, or stripe, slack, "
		                "twilio, shopify");
	return 0;
}

static struct node
word_at(const struct node *place, const char *text)
{
	return (struct node){ .kind = NODE_SCALAR, .file = place->file, .line = place->line,
	                      .column = place->column, .text = (char *)(uintptr_t)text };
}

/* As a rule: {allow: HOSTS, ports: ..., methods: ..., paths: ...}. */
static int
read_scope(struct reading *r)
{
	static const enum key as_said[] = { KEY_PORTS, KEY_METHODS, KEY_PATHS };
	const struct node *hosts = r->values[KEY_HOSTS];
	struct node words[8], *items[8], *values[8], here = word_at(r->d.at, SECRET_CELL_HOST);
	struct node rule = word_at(r->d.at, "");
	struct policy_rule *read;
	size_t n = 0;
	int e = r->s->scheme->comes_in ? check_coming(r) : 0;

	if (e < 0)
		return e;
	if (r->s->scheme->comes_in)
		hosts = &here;
	if (hosts == NULL)
		return node_err(r->d.err, r->d.at, *r->s->like != '\0' ?
		                "where '%s' may be sent is not known: say its `hosts:` (--host)" :
		                "'%s' is of no service that is known: say the `hosts:` (--host) that it may "
		                "be sent to, or the service that it is `like:` (--like)", r->s->name);
	words[0] = word_at(hosts, "allow");
	words[1] = word_at(r->d.at, r->s->scheme->raw ? "protocol" : "scheme");
	words[2] = word_at(r->d.at, r->s->scheme->raw ? "tcp" : "https");
	items[n] = &words[0];
	values[n++] = (struct node *)(uintptr_t)hosts;
	if (r->s->scheme->raw || (!r->plain && !r->s->scheme->comes_in)) {
		items[n] = &words[1];
		values[n++] = &words[2];
	}
	for (size_t i = 0; i < ARRAY_LEN(as_said); i++) {
		const struct node *value = r->values[as_said[i]];

		if (value == NULL)
			continue;
		words[3 + i] = word_at(value, key_names[as_said[i]]);
		items[n] = &words[3 + i];
		values[n++] = (struct node *)(uintptr_t)value;
	}
	rule.kind = NODE_MAP;
	rule.items = items;
	rule.values = values;
	rule.n = n;
	e = policy_read_rule(r->s->scope, &rule, rule.file, r->d.err);
	if (e < 0)
		return e;
	read = &r->s->scope->rules[0];
	if (read->call.present)
		return node_err(r->d.err, hosts, "a secret goes to hosts: a server of `tools` has those of its own policy");
	for (size_t i = 0; i < read->n_hosts; i++)
		if (read->hosts[i].kind == POLICY_HOST_ANY)
			return node_err(r->d.err, hosts, "a secret that may go to any host is none: name them");
	/* The secret does not limit sizes, and an upgrade counts as a request. */
	read->upload_max = UINT64_MAX;
	read->upgrade = r->s->scheme->raw ? POLICY_UPGRADE_NO : POLICY_UPGRADE_ALSO;
	return policy_seal(r->s->scope, r->d.err);
}

/* ---- the secret ---- */

static int
find_values(struct reading *r, const struct node *map, bool only_where, struct err *err)
{
	size_t k;

	for (size_t i = 0; i < map->n; i++) {
		for (k = 0; k < KEYS && strcmp(key_names[k], map->items[i]->text) != 0; k++)
			;
		if (k == KEYS && (strcmp(map->items[i]->text, "value") == 0 ||
		                  strcmp(map->items[i]->text, "secret") == 0))
			return node_err(err, map->items[i], "a value does not stand in a file that others "
			                "read: `cloister secret add`, or say `from:` where it comes from");
		if (k == KEYS)
			return policy_read_unknown(map->items[i], key_names, "in a secret", err);
		if (r->values[k] == NULL && (!only_where || k == KEY_HOSTS || k == KEY_ENV))
			r->values[k] = map->values[i];
	}
	return 0;
}

static int
read_all(struct reading *r)
{
	int e = read_scheme(r);

	e = e == 0 ? read_env(r) : e;
	e = e == 0 ? read_files(r) : e;
	e = e == 0 ? read_text(r, KEY_ID, "an id", &r->s->id) : e;
	e = e == 0 ? read_from(r) : e;
	e = e == 0 ? read_expires(r) : e;
	e = e == 0 ? read_plain(r) : e;
	e = e == 0 ? read_shapes(r) : e;
	e = e == 0 ? read_members(r) : e;
	e = e == 0 ? read_places(r) : e;
	e = e == 0 ? read_with(r) : e;
	e = e == 0 ? check_swap(r) : e;
	e = e == 0 ? check_tls(r) : e;
	e = e == 0 ? read_scope(r) : e;
	return e == 0 && r->values[KEY_CAPTURES] != NULL
	       ? secret_read_captures(r->s, r->values[KEY_CAPTURES], (const struct node *[SECRET_SAID]){
	             r->values[KEY_HOSTS], r->values[KEY_PORTS], r->values[KEY_PLAIN] }, r->d.err) : e;
}

/* Find its service: from `like`, or by its name. */
static int
find_like(struct reading *r, const struct node *node, const struct catalogue_entry **ret_entry)
{
	const struct node *like = node_get(node, "like");
	const char *text = "", *nearest;
	int e;

	*ret_entry = like == NULL ? catalogue_find(r->s->name) : NULL;
	if (like == NULL)
		return 0;
	e = policy_read_text(&r->d, like, "a service", &text);
	if (e < 0)
		return e;
	*ret_entry = catalogue_find(text);
	nearest = *ret_entry == NULL ? catalogue_nearest(text) : NULL;
	if (*ret_entry == NULL)
		return node_err(r->d.err, like, "there is no service '%.64s'%s%s%s", text,
		                nearest != NULL ? ": did you mean '" : " in the catalogue: say its scheme "
		                "and hosts instead", nearest != NULL ? nearest : "",
		                nearest != NULL ? "'?" : "");
	return 0;
}

/* The catalogue's entry does not apply to a credential with another scheme. */
static bool
is_other_scheme(const struct reading *r, const struct node *known)
{
	const struct node *said = r->values[KEY_SCHEME], *usual = node_get(known, "scheme");

	return said != NULL && said->kind == NODE_SCALAR &&
	       strcmp(said->text, usual != NULL ? usual->text : "swap") != 0;
}

int
secret_read(const char *name, const struct node *node, struct secret **ret_secret,
            struct err *err)
{
	OWN(secret_freep) struct secret *s = calloc(1, sizeof(*s));
	OWN(node_freep) struct node *known = NULL;
	struct reading r = { .s = s, .d = { .at = node, .err = err } };
	const struct catalogue_entry *entry = NULL;
	int e;

	if (s == NULL || (s->scope = policy_new_empty()) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (!secret_name_ok(name))
		return node_err(err, node, "'%.64s' is not the name of a secret: letters, digits and "
		                "'_-./', at most %d", name, SECRET_NAME_MAX);
	if (node->kind != NODE_MAP)
		return node_err(err, node, "a secret is a map: {hosts: api.example.com}");
	r.d.p = s->scope;
	s->name = policy_copy(s->scope, name, strlen(name));
	e = s->name != NULL ? find_like(&r, node, &entry) : err_set(err, ENOMEM, "out of memory");
	e = e == 0 ? find_values(&r, node, false, err) : e;
	if (e == 0 && entry != NULL) {
		e = node_parse(entry->name, entry->text, strlen(entry->text), &known, err);
		e = e == 0 ? find_values(&r, known, is_other_scheme(&r, known), err) : e;
	}
	if (e < 0)
		return e;
	s->like = entry != NULL ? policy_copy(s->scope, entry->name, strlen(entry->name)) : "";
	e = s->like != NULL ? read_all(&r) : err_set(err, ENOMEM, "out of memory");
	if (e == 0)
		*ret_secret = TAKE(s);
	return e;
}
