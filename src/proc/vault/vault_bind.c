/* vault_bind.c - gives a cell its secrets: values to the courier, placeholders to the cell. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy_parts.h"
#include "proc/vault/vault_proc.h"
#include "trust/trust.h"
#include "vault/bound.h"
#include "vault/vault_request.h"

#define DESCRIBED_MAX 4096              /* hosts beyond this size are left out */

/* The variables in which programs look for the related parts of a secret. */
static const struct {
	const char *secret, *id, *token;
} companions[] = {
	{ "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN" },
	{ "PGPASSWORD", "PGUSER", NULL },
};

/* Where secrets are known from: this machine's vault, or a service. */
struct from {
	const struct vault *vault;
	const struct lent *lent;
};

/* The value comes from the source in the cell's own definition; else from the vault; else from the
 * operator's variable of the same name. */
static int
fetch(const struct from *at, const struct secret *s, const struct secret *entry, uint64_t now,
      struct secret_values *ret_values, struct err *err)
{
	OWN(guard_free) struct guard text = {0};
	char from[SECRET_NAME_MAX + 8];
	int r;

	if (*s->from != '\0' && (entry == NULL || s != entry)) {
		r = source_fetch(s->from, &text, err);
		return r < 0 ? r : source_fields(s, &text, now, ret_values, err);
	}
	if (entry != NULL)
		return at->lent != NULL ? lent_values(at->lent, s->name, ret_values, err) :
		                          vault_values(at->vault, s->name, now, ret_values, err);
	if (at->lent != NULL)
		return err_set(err, ENOENT, "there is no secret '%s' in the service's vault: `cloister secret add %s` there",
		               s->name, s->name);
	snprintf(from, sizeof(from), "env:%s", s->name);
	r = source_fetch(from, &text, NULL);
	if (r < 0)
		return err_set(err, ENOENT, "there is no secret '%s' in the vault, and no variable of that "
		               "name: `cloister secret add %s`", s->name, s->name);
	return source_fields(s, &text, now, ret_values, err);
}

int
put_variable(const char *name, const char *value, struct err *err)
{
	OWN(buf_free) struct buf b = {0};

	if (name == NULL || value == NULL || *value == '\0')
		return 0;
	buf_init(&b, SECRET_VALUE_MAX + 256);
	buf_put_text(&b, name);
	buf_put(&b, "=", 1);
	buf_put(&b, value, strlen(value) + 1);
	if (buf_failed(&b))
		return err_set(err, EFBIG, "the placeholder for %s is too large for a variable", name);
	return write_all(VAULT_VARIABLES_FD, b.data, b.len, err);
}

/* Whether NAME looks like a variable: upper case. */
static bool
is_variable(const char *name)
{
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(name) &&
	       !isdigit((unsigned char)name[0]);
}

/* The variable in which programs look for it. */
static const char *
variable_of(const struct secret *s, const char *variable)
{
	return *variable != '\0' ? variable : *s->env != '\0' ? s->env : s->name;
}

static int
put_variables(const struct secret *s, const char *variable, const struct placeholder *p,
              struct err *err)
{
	const char *name = variable_of(s, variable);
	char named_id[SECRET_NAME_MAX + 8], named_token[SECRET_NAME_MAX + 8];
	const char *id = NULL, *token = NULL;
	int r;

	snprintf(named_id, sizeof(named_id), "%s_ID", name);
	snprintf(named_token, sizeof(named_token), "%s_TOKEN", name);
	for (size_t i = 0; i < ARRAY_LEN(companions); i++)
		if (strcmp(companions[i].secret, name) == 0) {
			id = companions[i].id;
			token = companions[i].token;
		}
	/* An id that no process in the cell could know otherwise. */
	if (id == NULL && s->scheme->mints_id) {
		id = named_id;
		token = named_token;
	}
	r = put_variable(name, p->field[SECRET_SECRET], err);
	/* If it was requested by a name for variables, it is also in that variable, wherever its
	 * tools look. */
	if (r == 0 && *variable == '\0' && strcmp(name, s->name) != 0 && is_variable(s->name))
		r = put_variable(s->name, p->field[SECRET_SECRET], err);
	r = r == 0 ? put_variable(id, p->field[SECRET_ID], err) : r;
	return r == 0 ? put_variable(token, p->field[SECRET_TOKEN], err) : r;
}

/* The ports whose incoming requests are to be checked. */
static int
put_ports(const struct secret *s, struct err *err)
{
	const struct policy_rule *rule = policy_rule_at(s->scope, 0);
	char text[SECRET_NAME_MAX + 32];
	int n, r = 0;

	for (size_t i = 0; r == 0 && s->scheme->comes_in && i < rule->n_ports; i++) {
		n = snprintf(text, sizeof(text), "=%s %u %u", s->name, rule->ports[i].first,
		             rule->ports[i].last);
		r = write_all(VAULT_VARIABLES_FD, text, (size_t)n + 1, err);
	}
	return r;
}

static void
put_host(struct buf *b, const struct policy_host *host)
{
	bool v4 = policy_net_is_ipv4(host);
	char address[INET6_ADDRSTRLEN] = "", text[HTTP_HOST_MAX + 64], port[8] = "";

	if (host->port != 0)
		snprintf(port, sizeof(port), ":%u", host->port);
	inet_ntop(v4 ? AF_INET : AF_INET6, host->address + (v4 ? 12 : 0), address, sizeof(address));
	if (host->kind == POLICY_HOST_NET)
		snprintf(text, sizeof(text), " %s/%d", address, host->bits - (v4 ? 96 : 0));
	else if (host->kind == POLICY_HOST_ANY)
		snprintf(text, sizeof(text), " *%s", port);
	else
		snprintf(text, sizeof(text), " %s%s%s", host->kind == POLICY_HOST_LABEL ? "*." :
		         host->kind == POLICY_HOST_UNDER ? "**." : "", host->name, port);
	buf_put_text(b, text);
}

/* For `cloister secret list --cell` while the cell runs. */
static int
put_described(const struct secret *s, struct err *err)
{
	const struct policy_rule *rule = policy_rule_at(s->scope, 0);
	OWN(buf_free) struct buf b = BUF(DESCRIBED_MAX);
	char text[SECRET_NAME_MAX + 64];

	snprintf(text, sizeof(text), "*%s %.32s", s->name, s->scheme->name);
	buf_put_text(&b, text);
	for (size_t i = 0; i < rule->n_hosts && b.len + HTTP_HOST_MAX + 64 < DESCRIBED_MAX; i++)
		put_host(&b, &rule->hosts[i]);
	buf_put(&b, "", 1);
	return buf_failed(&b) ? err_set(err, ENOMEM, "out of memory") :
	                        write_all(VAULT_VARIABLES_FD, b.data, b.len, err);
}

static int
put_source(char kind, const char *path, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(SOURCE_TEXT_MAX + 2);

	buf_put(&b, &kind, 1);
	buf_put(&b, path, strlen(path) + 1);
	return buf_failed(&b) ? err_set(err, ENOMEM, "out of memory") :
	                        write_all(VAULT_VARIABLES_FD, b.data, b.len, err);
}

static int
put_path(void *arg, const char *path)
{
	return put_source('>', path, arg);
}

/* The files that an agent must not change unseen: the one with the value, or those that a command names. */
static int
put_sources(const char *from, struct err *err)
{
	struct source_words words;
	int r;

	if (strncmp(from, "file:", 5) == 0)
		return put_source('<', from + 5, err);
	if (strncmp(from, "cmd:", 4) != 0)
		return 0;
	r = source_split(from + 4, &words, err);
	return r < 0 ? r : trust_each_path(words.at, put_path, err);
}

static int
no_such(const struct from *from, const char *name, const char *nearest, struct err *err)
{
	if (from->lent != NULL)
		return err_set(err, ENOENT, "there is no secret '%.64s' in the service's vault: `cloister secret add %.64s` "
		               "there", name, name);
	if (nearest != NULL)
		return err_set(err, ENOENT, "there is no secret '%.64s': did you mean '%.64s'?", name, nearest);
	return err_set(err, ENOENT, "there is no secret '%.64s' in the vault: `cloister secret add %.64s` "
	               "keeps it there, or -s %.64s@HOST takes it from the variable %.64s", name, name,
	               name, name);
}

/* Chooses between a definition, if there is one, and the vault's entry. */
static const struct secret *
choose(const struct secret *defined, bool unless_known, const struct secret *entry)
{
	return entry != NULL && (defined == NULL || unless_known) ? entry : defined;
}

/* A secret that other policies must give too goes only where all of them permit. */
static int
narrow(const struct from *from, struct bound_one *one, const struct secret *entry, struct err *err)
{
	const struct vault_binding *b = one->asked;

	for (size_t i = 0; i < b->n_within; i++) {
		const struct secret *outer = choose(b->within[i].secret, b->within[i].unless_known, entry);
		struct secret *narrower;
		int r;

		if (outer == NULL)
			return no_such(from, b->name, NULL, err);
		if (outer == one->secret)
			continue;
		r = secret_narrow(one->secret, outer, &narrower, err);
		if (r < 0)
			return r;
		secret_free(one->narrowed);
		one->secret = one->narrowed = narrower;
	}
	return 0;
}

/* Its definition, as the vault or the service has it. */
static const struct secret *
find_known(const struct from *from, const char *name, const char **ret_nearest)
{
	const struct vault_entry *entry;

	if (from->lent != NULL)
		return lent_find(from->lent, name);
	entry = from->vault == NULL ? NULL : vault_find(from->vault, name, ret_nearest);
	return entry == NULL ? NULL : entry->secret;
}

static int
bind_one(const struct from *from, struct bound_one *one, uint64_t now, struct keeper *keeper,
         struct err *err)
{
	OWN(secret_values_free) struct secret_values values = {0};
	const struct vault_binding *b = one->asked;
	const char *nearest = NULL;
	const struct secret *entry = find_known(from, b->name, &nearest);
	const struct secret *s = choose(b->secret, b->unless_known, entry), *source;
	int r;

	if (s == NULL)
		return no_such(from, b->name, nearest, err);
	source = *s->from != '\0' || entry == NULL ? s : entry;
	r = fetch(from, s, entry, now, &values, err);
	r = r == 0 ? put_sources(source->from, err) : r;
	one->secret = s;
	r = r == 0 ? narrow(from, one, entry, err) : r;
	s = one->secret;
	r = r == 0 ? put_described(s, err) : r;
	if (r == 0 && ssh_is_scheme(s))
		return ssh_bind(s, &values, variable_of(s, b->variable), err);
	r = r == 0 ? placeholder_mint(s, &values, &one->fake, err) : r;
	r = r == 0 ? bound_write(VAULT_BOUND_FD, s, &one->fake, &values, err) : r;
	r = r == 0 ? keeper_add(keeper, source, from->lent != NULL && source == entry, &values, now, err) : r;
	r = r == 0 ? put_ports(s, err) : r;
	return r == 0 ? put_variables(s, b->variable, &one->fake, err) : r;
}

/* A second one would replace the first, which then would not be given at all. */
static int
check_variables(const struct bound_one *all, size_t n, struct err *err)
{
	const char *last = variable_of(all[n - 1].secret, all[n - 1].asked->variable);

	for (size_t i = 0; i < n - 1; i++)
		if (strcmp(variable_of(all[i].secret, all[i].asked->variable), last) == 0)
			return err_set(err, EEXIST, "the secrets '%s' and '%s' are both given as %s: give one of "
			               "them another variable, with -s %s=VARIABLE", all[i].secret->name,
			               all[n - 1].secret->name, last, all[n - 1].secret->name);
	return 0;
}

int
bind_all(const struct vault *v, const struct lent *lent, const struct vault_request *q, uint64_t now,
         struct keeper *keeper, struct err *err)
{
	const struct from from = { .vault = v, .lent = lent };
	struct bound_one all[VAULT_BIND_MAX] = {0};
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->n_bind; i++) {
		all[i].asked = &q->bind[i];
		r = bind_one(&from, &all[i], now, keeper, err);
		r = r == 0 ? check_variables(all, i + 1, err) : r;
	}
	r = r == 0 ? bind_files(all, q->n_bind, err) : r;
	for (size_t i = 0; i < q->n_bind; i++) {
		placeholder_free(&all[i].fake);
		secret_free(all[i].narrowed);
	}
	return r;
}
