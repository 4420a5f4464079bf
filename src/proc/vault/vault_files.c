/* vault_files.c - makes the files in which a cell's tools look for credentials: each with all
 * secrets that belong in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_spec.h"
#include "proc/vault/vault_proc.h"
#include "vault/vault_request.h"

#define HOSTS_MAX 256                   /* for one secret, the limit of a policy's lists */
#define HOST_MAX (255 + 6 + 1)

/* The data of one secret for the file. */
struct entry {
	char host[HOSTS_MAX][HOST_MAX];
	const char *hosts[HOSTS_MAX + 1];
	const char *with[2 * SECRET_LIST_MAX + 1];
};

static bool
is_in(const char *list, const char *name)
{
	size_t len = strlen(name), n;

	for (; *list != '\0'; list += n + (list[n] == ',')) {
		n = strcspn(list, ",");
		if (n == len && memcmp(list, name, n) == 0)
			return true;
	}
	return false;
}

static bool
is_wanted(const struct bound_one *one, const struct placeholder_file *file)
{
	for (size_t i = 0; i < one->secret->files.n; i++)
		if (strcmp(one->secret->files.at[i], file->name) == 0)
			return true;
	return is_in(one->asked->files, file->name);
}

/* The hosts of its scope that are exact names. */
static void
list_hosts(const struct secret *s, struct entry *e)
{
	const struct policy_rule *rule = policy_rule_at(s->scope, 0);
	size_t n = 0;

	for (size_t i = 0; i < rule->n_hosts && n < HOSTS_MAX; i++) {
		if (rule->hosts[i].kind != POLICY_HOST_NAME)
			continue;
		if (rule->hosts[i].port != 0 && rule->hosts[i].port != 443)
			snprintf(e->host[n], HOST_MAX, "%s:%u", rule->hosts[i].name, rule->hosts[i].port);
		else
			snprintf(e->host[n], HOST_MAX, "%s", rule->hosts[i].name);
		e->hosts[n] = e->host[n];
		n++;
	}
	e->hosts[n] = NULL;
}

static struct placeholder_facts
facts_of(const struct bound_one *one, struct entry *e)
{
	const struct secret *s = one->secret;

	list_hosts(s, e);
	for (size_t i = 0; i < s->with.n; i++) {
		e->with[2 * i] = s->with.at[i];
		e->with[2 * i + 1] = s->with_values.at[i];
	}
	e->with[2 * s->with.n] = NULL;
	return (struct placeholder_facts){ .id = one->fake.field[SECRET_ID],
		.secret = one->fake.field[SECRET_SECRET], .token = one->fake.field[SECRET_TOKEN],
		.hosts = e->hosts, .with = e->with };
}

static int
write_file(const struct placeholder_file *file, const struct placeholder_facts *facts, size_t n,
           struct err *err)
{
	OWN(buf_free) struct buf b = {0};
	OWN(freep) char *text = NULL, *path = NULL;
	int r = placeholder_file_text(file, facts, n, &text, err);

	if (r < 0)
		return err_wrap(err, "the file '%s'", file->name);
	buf_init(&b, VAULT_FILES_MAX);
	buf_put_str(&b, file->path);
	buf_put_str(&b, text);
	if (buf_failed(&b))
		return err_set(err, EFBIG, "the file '%s' is too large", file->name);
	r = write_all(VAULT_FILES_FD, b.data, b.len, err);
	if (r < 0 || file->env == NULL)
		return r;
	path = str_format(CELL_HOME "/%s", file->path);
	return path == NULL ? err_set(err, ENOMEM, "out of memory") :
	                      put_variable(file->env, path, err);
}

int
bind_files(const struct bound_one *all, size_t n, struct err *err)
{
	OWN(freep) struct entry *entries = calloc(n + 1, sizeof(*entries));
	struct placeholder_facts facts[VAULT_BIND_MAX];
	int r = entries == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	for (size_t f = 0; r == 0 && f < PLACEHOLDER_FORMATS; f++) {
		size_t n_facts = 0;

		for (size_t i = 0; i < n; i++)
			if (is_wanted(&all[i], &placeholder_files[f])) {
				facts[n_facts] = facts_of(&all[i], &entries[n_facts]);
				n_facts++;
			}
		if (n_facts > 0)
			r = write_file(&placeholder_files[f], facts, n_facts, err);
	}
	return r;
}
