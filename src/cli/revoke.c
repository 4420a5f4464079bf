/* revoke.c - `cloister revoke`, `rotate` and `ttl`: takes a secret from a running cell, replaces
 * it, or sets the cell's time to live.
 *
 * No value is ever in this process: cloister-vault writes it into a memory file for the courier. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_secrets.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "vault/vault_request.h"

struct how {
	bool all, asks, quiet;
	struct cell_steer_who who;
	const char *cell, *secret;
};

const struct cli_option cli_revoke_options[] = {
	{ "all", 0, NULL, "in every cell of this user", CLI_FLAG(struct how, all) },
	{ "quiet", 'q', NULL, "give the agent the service's own response to an invalid key",
	  CLI_FLAG(struct how, quiet) },
	{ "why", 0, "TEXT", "a reason for the audit log", CLI_TEXT(struct how, who.why) },
	{0}
};
const struct cli_option cli_rotate_options[] = {
	{ "all", 0, NULL, "in every cell of this user", CLI_FLAG(struct how, all) },
	{ "new", 0, NULL, "first ask for the new value, and store it in the vault", CLI_FLAG(struct how, asks) },
	{ "why", 0, "TEXT", "a reason for the audit log", CLI_TEXT(struct how, who.why) },
	{0}
};
const struct cli_option cli_ttl_options[] = {
	{ "why", 0, "TEXT", "a reason for the audit log", CLI_TEXT(struct how, who.why) },
	{0}
};

/* CELL SECRET, or with --all only SECRET.  Further words may be a value, so messages do not repeat them. */
static int
take_words(struct how *how, const char *command, int argc, char **argv, struct err *err)
{
	if (argc > (how->all ? 1 : 2))
		return err_set(err, EINVAL, how->all ? "--all means every cell: use `cloister %s --all "
		               "SECRET`; a value is never given on the command line" : "`cloister %s CELL SECRET` "
		               "takes no other arguments: a value is never given on the command line", command);
	if (argc < (how->all ? 1 : 2))
		return err_set(err, EINVAL, "a cell and a secret are needed: cloister %s CELL|--all "
		               "SECRET",
		               command);
	how->cell = how->all ? NULL : argv[0];
	how->secret = argv[argc - 1];
	if (!secret_name_ok(how->secret))
		return err_set(err, EINVAL, "this cannot be the name of a secret: use up to %d "
		               "letters, digits and '_-./'", SECRET_NAME_MAX);
	return 0;
}

static int
tell_one(const struct cell_entry *entry, const char *did, const char *secret)
{
	printf("%s: %s in cell %s\n", secret, did, entry->id);
	return 0;
}

/* For every cell: prints how many there were. */
static int
tell_every(const struct cell_every *every, const char *did, const char *secret, struct err *err)
{
	if (every->failed > 0)
		return err_set(err, every->first.code, "%s in %zu of %zu %s: %s", did, every->n,
		               every->n + every->failed, every->n + every->failed == 1 ? "cell" : "cells",
		               every->first.text);
	if (every->n == 0)
		return err_set(err, ENOENT, "no running cell has a secret '%.64s'", secret);
	printf("%s in %zu %s\n", did, every->n, every->n == 1 ? "cell" : "cells");
	return 0;
}

/* ---- revoke ---- */

static int
revoke_it(const struct how *how, struct err *err)
{
	OWN(closep) int fd = -1;
	struct cell_every every;
	struct cell_entry entry;
	int r;

	if (!how->all) {
		fd = cli_connect(how->cell, &entry, err);
		r = fd < 0 ? fd : cell_revoke(fd, &how->who, how->secret, how->quiet, err);
		return r < 0 ? r : tell_one(&entry, "revoked", how->secret);
	}
	fd = cell_runtime_open(err);
	r = fd < 0 ? fd : cell_revoke_every(fd, &how->who, how->secret, how->quiet, &every, err);
	r = r < 0 ? r : cli_note_every(VERB_REVOKE, every.n, how->secret, how->who.why, err);
	return r < 0 ? r : tell_every(&every, "revoked", how->secret, err);
}

int
cmd_revoke(int argc, char **argv)
{
	struct how how = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_revoke_options, argc, argv, true, cli_check_why, &how, &rest, &err) < 0 ||
	    take_words(&how, "revoke", argc - rest, argv + rest, &err) < 0 || revoke_it(&how, &err) < 0)
		return cli_fail(&err);
	return 0;
}

/* ---- rotate ---- */

/* Runs cloister-vault with REQUEST, which writes a secret to VALUE; -1: it writes none.  It reports
 * errors itself. */
static int
run_vault(const struct vault_request *request, int value, struct err *err)
{
	OWN(closep) int asked = memfd_create("vault-request", MFD_CLOEXEC);
	OWN(closep) int others = memfd_create("others", MFD_CLOEXEC);
	/* The output of `secret rotate` is not wanted here. */
	const struct spawn_fd fds[] = { { asked, VAULT_REQUEST_FD },
		{ value < 0 ? SPAWN_NULL : -1, STDOUT_FILENO }, { value, VAULT_BOUND_FD },
		{ others, VAULT_VARIABLES_FD }, { others, VAULT_FILES_FD }, { others, VAULT_HOSTS_FD } };
	const struct spawn how = { .argv = (char *[]){ (char[]){ "cloister-vault" }, NULL }, .fds = fds,
		.n_fds = value < 0 ? 2 : ARRAY_LEN(fds) };
	OWN(buf_free) struct buf b = BUF(VAULT_REQUEST_MAX);
	pid_t pid;
	int r;

	vault_request_put(&b, request);
	if (asked < 0 || others < 0 || buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	r = write_all(asked, b.data, b.len, err);
	pid = r < 0 ? r : spawn_start(&how, NULL, err);
	return pid < 0 ? pid : cli_await_vault(pid, err);
}

/* If the vault does not know the secret, its value is in a variable of its name, as with -s
 * NAME@HOST.  The cell knows where it may go. */
static int
fetch_value(const char *name, int value, struct err *err)
{
	OWN(vault_request_free) struct vault_request q = { .verb = VAULT_VALUE, .name = "", .key = "",
		.n_bind = 1, .bind = { { .name = name, .variable = "", .files = "", .unless_known = true } } };
	OWN(secret_list_free) struct secret_list list = {0};
	char text[SECRET_NAME_MAX + 64];
	int n = snprintf(text, sizeof(text), "{version: 1, secrets: {%s: {hosts: nowhere.invalid}}}", name);
	int r = secret_load_text("rotate", text, (size_t)n, &list, err);

	if (r == 0)
		q.bind[0].secret = TAKE(list.at[0]);
	r = r == 0 ? run_vault(&q, value, err) : r;
	return r == 0 ? run_seal(value, err) : r;
}

static int
rotate_it(const struct how *how, struct err *err)
{
	struct vault_request keep = { .verb = VAULT_ROTATE, .name = how->secret, .key = "" };
	OWN(closep) int value = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	OWN(closep) int fd = -1;
	struct cell_every every;
	struct cell_entry entry;
	int r;

	if (value < 0)
		return err_errno(err, "cannot create a memory file");
	/* Check first that the cell exists: a new value in the vault cannot be undone. */
	fd = how->all ? cell_runtime_open(err) : cli_connect(how->cell, &entry, err);
	if (fd < 0)
		return fd;
	r = how->asks ? run_vault(&keep, -1, err) : 0;
	r = r == 0 ? fetch_value(how->secret, value, err) : r;
	if (r < 0)
		return r;
	if (!how->all) {
		r = cell_rotate(fd, &how->who, how->secret, value, err);
		return r < 0 ? r : tell_one(&entry, "rotated", how->secret);
	}
	r = cell_rotate_every(fd, &how->who, how->secret, value, &every, err);
	r = r < 0 ? r : cli_note_every(VERB_ROTATE, every.n, how->secret, how->who.why, err);
	return r < 0 ? r : tell_every(&every, "rotated", how->secret, err);
}

int
cmd_rotate(int argc, char **argv)
{
	struct how how = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_rotate_options, argc, argv, true, cli_check_why, &how, &rest, &err) < 0 ||
	    take_words(&how, "rotate", argc - rest, argv + rest, &err) < 0 || rotate_it(&how, &err) < 0)
		return cli_fail(&err);
	return 0;
}

/* ---- ttl ---- */

static int
set_ttl(const struct how *how, const char *word, struct err *err)
{
	OWN(closep) int fd = -1;
	char text[NUM_TEXT_MAX];
	struct cell_entry entry;
	uint64_t ms = 0;
	int r;

	if (strcmp(word, "none") != 0 && num_parse_duration(word, &ms, err) < 0)
		return -EINVAL;
	if (strcmp(word, "none") != 0 && ms == 0)
		return err_set(err, EINVAL, "'%.64s' is not a time to live: `cloister stop` ends a "
		               "cell now, and `none` removes the limit",
		               word);
	fd = cli_connect(how->cell, &entry, err);
	r = fd < 0 ? fd : cell_set_ttl(fd, &how->who, ms, err);
	if (r == 0 && ms == 0)
		printf("cell %s has no time to live any more\n", entry.id);
	else if (r == 0)
		printf("cell %s will be stopped in %s\n", entry.id, num_format_duration(text, ms));
	return r;
}

int
cmd_ttl(int argc, char **argv)
{
	struct how how = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_ttl_options, argc, argv, true, cli_check_why, &how, &rest, &err) < 0)
		return cli_fail(&err);
	if (argc - rest != 2)
		return cli_failf("a cell and a time are needed: cloister ttl CELL TIME|none");
	how.cell = argv[rest];
	return set_ttl(&how, argv[rest + 1], &err) < 0 ? cli_fail(&err) : 0;
}
