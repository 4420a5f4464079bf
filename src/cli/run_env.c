/* run_env.c - the agent's environment: a few documented variables, and those of -e. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/buf.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "cli/run.h"
#include "cli/run_agent.h"

#define GIT_COUNT "GIT_CONFIG_COUNT="

void
run_free(struct run *run)
{
	for (size_t i = 0; i < run->n_given; i++)
		free(run->given[i].entry);
	free(run->given);
	for (size_t i = 0; i < run->n_allows; i++)
		free(run->allow_places[i]);
	run_agent_free(run->agent);
	json_decref(run->doc);
	json_decref(run->image_config);
	strv_free(run->engine_layers);
	free(run->image_text);
	free(run->input_path);
	strv_free(run->placeholders);
	strv_free(run->git);
	secret_wants_free(&run->wants);
	policy_source_free(&run->source);
	run_free_within(run);
	cell_spec_free(&run->spec);
}

static bool
is_name(const char *text, size_t len)
{
	static const char ok[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";

	return len > 0 && strspn(text, ok) >= len && (text[0] < '0' || text[0] > '9');
}

int
run_add_env(struct run *run, const char *text, const char *file, struct err *err)
{
	size_t len = strcspn(text, "=");
	struct run_variable *more;
	const char *value;
	char *entry;

	if (!is_name(text, len))
		return err_set(err, EINVAL, "-e '%s' does not start with the name of a variable", text);
	if (run->n_given == RUN_VARIABLES_MAX)
		return err_set(err, E2BIG, "there are too many variables");
	value = text[len] == '=' ? text + len + 1 : getenv(text);
	if (value == NULL)
		return err_set(err, ENOENT, "-e %s: this variable is not set here; give a value: -e "
		               "%s=...",
		               text, text);
	entry = str_format("%.*s=%s", (int)len, text, value);
	more = reallocarray(run->given, run->n_given + 1, sizeof(*more));
	if (more != NULL)
		run->given = more;
	if (entry == NULL || more == NULL) {
		free(entry);
		return err_set(err, ENOMEM, "out of memory");
	}
	run->given[run->n_given++] = (struct run_variable){ entry, file };
	return 0;
}

/* A later entry replaces an earlier one of the same name. */
static int
put_entry(char **env, size_t *n, const char *name, const char *value)
{
	size_t len = strlen(name), at = 0;
	char *entry = str_format("%s=%s", name, value);

	if (entry == NULL)
		return -ENOMEM;
	while (at < *n && (strncmp(env[at], name, len) != 0 || env[at][len] != '='))
		at++;
	if (at == *n)
		(*n)++;
	else
		free(env[at]);
	env[at] = entry;
	return 0;
}

/* "NAME=VALUE" */
static int
put_whole(char **env, size_t *n, const char *entry)
{
	OWN(freep) char *name = strndup(entry, strcspn(entry, "="));

	return name == NULL ? -ENOMEM : put_entry(env, n, name, strchr(entry, '=') + 1);
}

/* For `exec`: records which of them hold placeholders. */
static int
note_names(struct run *run)
{
	size_t n = 0;

	run->spec.placeholders = calloc(strv_len(run->placeholders) + 1, sizeof(char *));
	if (run->spec.placeholders == NULL)
		return -ENOMEM;
	for (char **p = run->placeholders; *p != NULL; p++) {
		run->spec.placeholders[n] = strndup(*p, strcspn(*p, "="));
		if (run->spec.placeholders[n++] == NULL)
			return -ENOMEM;
	}
	return 0;
}

/* The places where programs look for trusted authorities, for when the gate terminates TLS. */
static int
put_trust(const struct run *run, char **env, size_t *n)
{
	/* A build must not change the image's own. */
	const bool build = run->spec.image.build;
	static const char *const bundle[] = {
		"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
		"PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "NIX_SSL_CERT_FILE", "DENO_CERT",
		"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	};
	/* These add to the program's own authorities. */
	static const char *const extra[] = { "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(bundle); i++)
		r = put_entry(env, n, bundle[i], build ? CELL_NET_BUILD CELL_NET_BUNDLE : CELL_NET_BUNDLE);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(extra); i++)
		r = put_entry(env, n, extra[i], build ? CELL_NET_BUILD CELL_NET_CA : CELL_NET_CA);
	return r;
}

/* Without a network, retries are useless: npm would retry for more than a minute, whatever the error. */
static int
put_no_retries(char **env, size_t *n)
{
	static const char *const none[] = { "NPM_CONFIG_FETCH_RETRIES", "PIP_RETRIES", "CARGO_NET_RETRY" };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(none); i++)
		r = put_entry(env, n, none[i], "0");
	return r;
}

struct pair {
	const char *name, *value;
};

static int
put_pairs(char **env, size_t *n, const struct pair *pairs, size_t n_pairs)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_pairs; i++)
		r = put_entry(env, n, pairs[i].name, pairs[i].value);
	return r;
}

struct putting {
	char **env;
	size_t *n;
};

static int
put_images(void *arg, const char *entry)
{
	const struct putting *p = arg;

	return put_whole(p->env, p->n, entry);
}

/* The defaults, which an image may change, and the variables that are about the cell. */
static int
put_usual(const struct run *run, char **env, size_t *n, struct err *err)
{
	const struct pair defaults[] = {
		{ "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
		{ "SHELL", "/bin/sh" },
		{ "LANG", "C.UTF-8" },
	}, own[] = {
		{ "HOME", CELL_HOME },
		{ "USER", run->spec.root ? "root" : "agent" },
		{ "LOGNAME", run->spec.root ? "root" : "agent" },
		{ "CLOISTER_CELL", run->spec.id },
	};
	struct putting p = { env, n };
	int r = put_pairs(env, n, defaults, ARRAY_LEN(defaults));

	r = r == 0 ? run_put_image_env(run, put_images, &p, err) : r;
	return r == 0 ? put_pairs(env, n, own, ARRAY_LEN(own)) : r;
}

/* Not beside other settings of that kind: git reads as many as GIT_CONFIG_COUNT says. */
static int
put_git(const struct run *run, char **env, size_t *n)
{
	int r = 0;

	for (size_t i = 0; i < *n; i++)
		if (strncmp(env[i], GIT_COUNT, sizeof(GIT_COUNT) - 1) == 0)
			return 0;
	for (size_t i = 0; i < run->n_given; i++)
		if (strncmp(run->given[i].entry, GIT_COUNT, sizeof(GIT_COUNT) - 1) == 0)
			return 0;
	for (char **entry = run->git; r == 0 && entry != NULL && *entry != NULL; entry++)
		r = put_whole(env, n, *entry);
	return r;
}

static int
put_caches(void *arg, const char *name, const char *value)
{
	const struct putting *p = arg;

	return put_entry(p->env, p->n, name, value);
}

int
run_finish_env(struct run *run, struct err *err)
{
	const char *term = getenv("TERM");
	size_t n = 0;
	int r;

	run->spec.env = calloc(CELL_ARGS_MAX + 1, sizeof(char *));
	if (run->spec.env == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (char **e = environ; !CONTROL_ON("env") && *e != NULL && n < CELL_ARGS_MAX / 4; e++)
		run->spec.env[n++] = strdup(*e);
	r = put_usual(run, run->spec.env, &n, err);
	if (r == -E2BIG)
		return r;
	/* Whoever attaches later has some terminal. */
	if (term == NULL && run->spec.detached)
		term = "xterm-256color";
	if (r == 0 && run->spec.tty && term != NULL)
		r = put_entry(run->spec.env, &n, "TERM", term);
	if (r == 0)
		r = run->spec.has_policy ? put_trust(run, run->spec.env, &n) : put_no_retries(run->spec.env, &n);
	r = r == 0 ? run_put_cache_env(run, put_caches, &(struct putting){ run->spec.env, &n }) : r;
	r = r == 0 ? put_git(run, run->spec.env, &n) : r;
	if (r == 0 && run->placeholders != NULL)
		r = note_names(run);
	for (char **p = run->placeholders; r == 0 && p != NULL && *p != NULL; p++)
		r = put_whole(run->spec.env, &n, *p);
	for (size_t i = 0; r == 0 && i < run->n_given; i++)
		r = put_whole(run->spec.env, &n, run->given[i].entry);
	return r < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}
