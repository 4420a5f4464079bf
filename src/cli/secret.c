/* secret.c - `cloister secret`: describes a secret, and lets cloister-vault store it.
 *
 * No value is ever in this process: cloister-vault asks for it, or reads it from standard input. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/secret.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"
#include "vault/catalogue.h"
#include "vault/vault_request.h"

#define NAMES_MAX (16u << 20)           /* bytes of the vault's list */

enum { OPT_LIKE, OPT_HOST, OPT_PORT, OPT_METHOD, OPT_PATH, OPT_IN, OPT_SCHEME, OPT_WITH, OPT_SHAPE,
       OPT_ID, OPT_ENV, OPT_TOOL_FILE, OPT_FROM, OPT_EXPIRES };

/* The options, as the YAML of one secret: so there is only one parser. */
struct secret_cli {
	bool json;
	const char *file, *key, *cell;
	bool defines;                   /* an option besides the name was given */
	const char *said[OPT_EXPIRES + 1][SECRET_LIST_MAX];
	size_t n[OPT_EXPIRES + 1];
	bool plain;
};

const struct cli_option cli_secret_options[] = {
	{ "like", 'l', "SERVICE", "add: use the settings of this service (see `secret services`)", OPT_LIKE },
	{ "host", 0, "HOST[:PORT]", "add: a host that it may be sent to", OPT_HOST },
	{ "port", 0, "PORT", "add: for a webhook: the cell's port that receives it", OPT_PORT },
	{ "method", 0, "METHOD", "add: only with this method", OPT_METHOD },
	{ "path", 0, "GLOB", "add: only to these paths", OPT_PATH },
	{ "in", 0, "PLACE", "add: where it may be: header[:NAME], query, path, body ...", OPT_IN },
	{ "scheme", 0, "SCHEME", "add: how it is used: swap (default), basic, sigv4 ...", OPT_SCHEME },
	{ "with", 0, "NAME=TEXT", "add: a parameter of the scheme, such as region=eu-west-1", OPT_WITH },
	{ "shape", 0, "SHAPE", "add: the format of the value, such as 'key_{w32}'", OPT_SHAPE },
	{ "id", 0, "ID", "add: the key id, account or user that belongs to it", OPT_ID },
	{ "env", 'e', "NAME", "add: the variable that its tools read", OPT_ENV },
	{ "tool-file", 0, "FORMAT", "add: also write it to this tool file: netrc, npmrc ...",
	  OPT_TOOL_FILE },
	{ "from", 0, "SOURCE", "add: fetch it from env:NAME, file:PATH or cmd:PROGRAM ARGS", OPT_FROM },
	{ "expires", 0, "TIME|/PLACE", "add: when to fetch it from SOURCE again", OPT_EXPIRES },
	{ "plain", 0, NULL, "add: allow it over HTTP without TLS", CLI_FLAG(struct secret_cli, plain) },
	{ "file", 'f', "FILE", "add: read the definition of NAME from this file",
	  CLI_TEXT(struct secret_cli, file) },
	{ "key", 0, "KEY", "init: the vault's key: file, passphrase or cmd:PROGRAM ARGS",
	  CLI_TEXT(struct secret_cli, key) },
	{ "cell", 'c', "CELL", "list: the secrets of this running cell, and their usage",
	  CLI_TEXT(struct secret_cli, cell) },
	{ "json", 0, NULL, "print JSON for programs", CLI_FLAG(struct secret_cli, json) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct secret_cli *cli = arg;
	static const unsigned many = 1u << OPT_HOST | 1u << OPT_PORT | 1u << OPT_METHOD | 1u << OPT_PATH |
	                             1u << OPT_IN | 1u << OPT_WITH | 1u << OPT_SHAPE |
	                             1u << OPT_TOOL_FILE;

	if (option->id < 0) {
		cli->defines |= cli->plain;
		return 0;
	}
	if (cli->n[option->id] > 0 && (many >> option->id & 1) == 0)
		return err_set(err, EINVAL, "the option '--%s' is given twice", option->name);
	if (cli->n[option->id] == SECRET_LIST_MAX)
		return err_set(err, E2BIG, "the option '--%s' is given more than %d times", option->name,
		               SECRET_LIST_MAX);
	cli->said[option->id][cli->n[option->id]++] = value;
	cli->defines = true;
	return 0;
}

/* ---- definitions ---- */

static int
put_with(struct buf *b, const struct secret_cli *cli, struct err *err)
{
	for (size_t i = 0; i < cli->n[OPT_WITH]; i++) {
		const char *text = cli->said[OPT_WITH][i], *equals = strchr(text, '=');

		if (equals == NULL)
			return err_set(err, EINVAL, "--with takes NAME=TEXT, such as region=eu-west-1");
		buf_put_text(b, i == 0 ? "with: {" : ", ");
		node_put_quoted(b, text, (size_t)(equals - text));
		buf_put_text(b, ": ");
		node_put_quoted(b, equals + 1, strlen(equals + 1));
	}
	buf_put_text(b, cli->n[OPT_WITH] > 0 ? "}, " : "");
	return 0;
}

static int
write_definition(struct buf *b, const struct secret_cli *cli, struct err *err)
{
	static const struct { int id; const char *key; bool list; } keys[] = {
		{ OPT_LIKE, "like", false }, { OPT_SCHEME, "scheme", false }, { OPT_ID, "id", false },
		{ OPT_ENV, "env", false }, { OPT_FROM, "from", false }, { OPT_EXPIRES, "expires", false },
		{ OPT_HOST, "hosts", true }, { OPT_PORT, "ports", true }, { OPT_METHOD, "methods", true },
		{ OPT_PATH, "paths", true }, { OPT_IN, "in", true }, { OPT_SHAPE, "shape", true },
		{ OPT_TOOL_FILE, "files", true },
	};

	buf_put_text(b, "{");
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		const char *const *said = cli->said[keys[k].id];

		if (cli->n[keys[k].id] == 0)
			continue;
		buf_put_text(b, keys[k].key);
		buf_put_text(b, keys[k].list ? ": [" : ": ");
		for (size_t i = 0; i < cli->n[keys[k].id]; i++) {
			buf_put_text(b, i > 0 ? ", " : "");
			node_put_quoted(b, said[i], strlen(said[i]));
		}
		buf_put_text(b, keys[k].list ? "], " : ", ");
	}
	if (cli->plain)
		buf_put_text(b, "plain: true, ");
	if (put_with(b, cli, err) < 0)
		return -EINVAL;
	buf_put_text(b, "}");
	return buf_failed(b) ? err_set(err, E2BIG, "the definition of this secret is too long") : 0;
}

/* The text was made from the options, so positions in it mean nothing to the user. */
static int
without_place(int r, struct err *err)
{
	size_t digits = strspn(err->text, ":0123456789");

	if (r < 0 && err->text[0] == ':' && err->text[digits] == ' ')
		memmove(err->text, err->text + digits + 1, strlen(err->text + digits + 1) + 1);
	return r;
}

static int
define_by_options(const struct secret_cli *cli, const char *name, struct secret **ret_secret,
                  struct err *err)
{
	OWN(buf_free) struct buf b = BUF(64 * 1024);
	OWN(node_freep) struct node *root = NULL;
	int r;

	r = write_definition(&b, cli, err);
	r = r == 0 ? node_parse("", (const char *)b.data, b.len, &root, err) : r;
	r = r == 0 ? secret_read(name, root, ret_secret, err) : r;
	return without_place(r, err);
}

static int
define_by_file(const char *file, const char *name, struct secret **ret_secret, struct err *err)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(freep) char *text = NULL;
	size_t len;
	int r = trust_read(TRUST_SECRET_DEFINITION, file, POLICY_FILE_MAX, &text, &len, err);

	r = r == 0 ? secret_load_text(file, text, len, &list, err) : r;
	if (r < 0)
		return r;
	for (size_t i = 0; i < list.n; i++) {
		if (strcmp(list.at[i]->name, name) == 0) {
			*ret_secret = TAKE(list.at[i]);
			return 0;
		}
	}
	return err_set(err, ENOENT, "there is no secret '%s' in '%s'", name, file);
}

/* ---- services ---- */

static void
list_services(void)
{
	size_t name = 0, variable = 0;

	for (const struct catalogue_entry *e = catalogue; e->name != NULL; e++) {
		name = strlen(e->name) > name ? strlen(e->name) : name;
		variable = strcspn(e->variables, " ") > variable ? strcspn(e->variables, " ") : variable;
	}
	for (const struct catalogue_entry *e = catalogue; e->name != NULL; e++)
		printf("%-*s  %-*.*s  %s\n", (int)name, e->name, (int)variable,
		       (int)strcspn(e->variables, " "), e->variables, e->title);
}

static int
show_services(const struct secret_cli *cli, int argc, char **argv)
{
	struct json out = { .out = stdout };
	const struct catalogue_entry *one = argc > 0 ? catalogue_find(argv[0]) : NULL;

	if (argc > 1)
		return cli_failf("`secret services` takes at most one name");
	if (argc == 1 && one == NULL) {
		const char *nearest = catalogue_nearest(argv[0]);

		return cli_failf("there is no service '%.64s': %s%s%s", argv[0],
		                 nearest != NULL ? "did you mean '" : "see `cloister secret services`",
		                 nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
	}
	if (!cli->json && one == NULL) {
		list_services();
		return 0;
	}
	if (cli->json)
		json_open(&out, NULL, '[');
	for (const struct catalogue_entry *e = catalogue; e->name != NULL; e++) {
		if (one != NULL && e != one)
			continue;
		if (cli->json) {
			json_open(&out, NULL, '{');
			json_str(&out, "name", e->name);
			json_str(&out, "title", e->title);
			json_str(&out, "variables", e->variables);
			json_str(&out, "definition", e->text);
			json_close(&out, '}');
		} else {
			printf("%s: %s\n%s\n", e->name, e->title, e->text);
		}
	}
	if (cli->json) {
		json_close(&out, ']');
		printf("\n");
	}
	return 0;
}

/* ---- requests to the vault ---- */

/* The request in a memory file. */
static int
pack_request(const struct vault_request *request, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(VAULT_REQUEST_MAX);
	OWN(closep) int fd = memfd_create("vault-request", MFD_CLOEXEC);
	int r;

	vault_request_put(&b, request);
	if (fd < 0 || buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	r = write_all(fd, b.data, b.len, err);
	return r < 0 ? r : TAKE_FD(fd);
}

static int
become_vault(const struct vault_request *request, struct err *err)
{
	OWN(closep) int fd = pack_request(request, err);

	return fd < 0 ? fd : spawn_become(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-vault" }, NULL },
		.fds = &(struct spawn_fd){ fd, VAULT_REQUEST_FD }, .n_fds = 1 }, err);
}

/* The vault reports errors itself, and then this process ends.  OUT, if not -1, becomes its standard output. */
static int
run_vault(const struct vault_request *request, int out, struct err *err)
{
	OWN(closep) int fd = pack_request(request, err);
	const struct spawn_fd fds[] = { { fd, VAULT_REQUEST_FD }, { out, STDOUT_FILENO } };
	pid_t pid = fd < 0 ? fd : spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-vault" }, NULL },
		.fds = fds, .n_fds = ARRAY_LEN(fds) }, NULL, err);

	return pid < 0 ? pid : cli_await_vault(pid, err);
}

int
secret_cli_names(char ***ret_names, struct err *err)
{
	const struct vault_request request = { .verb = VAULT_LIST, .json = true, .name = "", .key = "file" };
	OWN(closep) int out = memfd_create("vault-names", MFD_CLOEXEC);
	OWN(json_decrefp) json_t *list = NULL;
	OWN(strv_freep) char **names = NULL;
	OWN(freep) char *text = NULL;
	size_t len;
	int r = out < 0 ? err_errno(err, "cannot create a memory file") : run_vault(&request, out, err);

	r = r == 0 ? read_whole(out, NAMES_MAX, &text, &len, err) : r;
	if (r < 0)
		return r;
	list = json_loadb(text, len, 0, NULL);
	names = calloc(json_array_size(list) + 1, sizeof(*names));
	for (size_t i = 0; names != NULL && i < json_array_size(list); i++) {
		const char *name = json_string_value(json_object_get(json_array_get(list, i), "name"));

		names[i] = name == NULL ? NULL : strdup(name);
		if (names[i] == NULL)
			return err_set(err, EPROTO, "cannot read the list of cloister-vault");
	}
	*ret_names = TAKE(names);
	return *ret_names == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
secret_cli_add(const char *text, struct err *err)
{
	OWN(freep) struct secret_cli *cli = calloc(1, sizeof(*cli));
	OWN(secret_freep) struct secret *s = NULL;
	OWN(closep) int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct secret_short parsed;
	int r = cli == NULL ? err_set(err, ENOMEM, "out of memory") : secret_short_parse(text, &parsed, err);

	if (r == 0)
		r = parsed.hosts != NULL ? secret_short_define(&parsed, &s, err) : define_by_options(cli, parsed.name, &s, err);
	r = r < 0 ? r : run_vault(&(struct vault_request){ .verb = VAULT_ADD, .name = parsed.name, .key = "file",
		.secret = s }, nowhere, err);
	if (r == 0)
		fprintf(stderr, "%s is in the vault: see `cloister secret show %s`.\n", parsed.name, parsed.name);
	return r;
}

static const struct verb {
	const char *name;
	enum vault_verb verb;
	bool wants_name;
} verbs[] = {
	{ "add", VAULT_ADD, true }, { "list", VAULT_LIST, false }, { "show", VAULT_SHOW, true },
	{ "rotate", VAULT_ROTATE, true }, { "remove", VAULT_REMOVE, true },
	{ "init", VAULT_INIT, false },
};

/* Words after the name may be a value, so messages do not repeat them. */
static int
check_words(const struct verb *verb, int argc, char **argv, struct err *err)
{
	bool takes_value = verb->verb == VAULT_ADD || verb->verb == VAULT_ROTATE;

	if (argc < verb->wants_name)
		return err_set(err, EINVAL, "`secret %s` takes the NAME of a secret", verb->name);
	if (takes_value && (argc > 1 || strchr(argv[0], '=') != NULL))
		return err_set(err, EINVAL, "a value is not given on the command line, where every "
		               "process of this machine can read it and the shell keeps it: consider "
		               "it leaked and create a new one, then give that on standard input or "
		               "when asked");
	if (argc > verb->wants_name)
		return err_set(err, EINVAL, "`secret %s` takes %s", verb->name,
		               verb->wants_name ? "one name" : "no arguments");
	if (verb->wants_name && !secret_name_ok(argv[0]))
		return err_set(err, EINVAL, "this cannot be the name of a secret: use up to %d "
		               "letters, digits and '_-./'", SECRET_NAME_MAX);
	return 0;
}

static int
check_options(const struct secret_cli *cli, const struct verb *verb, struct err *err)
{
	if (verb->verb != VAULT_ADD && (cli->defines || cli->file != NULL))
		return err_set(err, EINVAL, "`secret %s` takes no definition: remove the secret, and add it "
		               "again", verb->name);
	if (cli->defines && cli->file != NULL)
		return err_set(err, EINVAL, "--file cannot be combined with other options: remove them");
	if (cli->key != NULL && verb->verb != VAULT_INIT)
		return err_set(err, EINVAL, "--key is only for `cloister secret init`, before the "
		               "first secret");
	if (cli->cell != NULL && verb->verb != VAULT_LIST)
		return err_set(err, EINVAL, "--cell is only for `cloister secret list`: `cloister "
		               "revoke` and `rotate` change a cell's secrets");
	return 0;
}

static int
ask_vault(const struct secret_cli *cli, const struct verb *verb, int argc, char **argv)
{
	struct vault_request request = { .verb = verb->verb, .json = cli->json, .name = "",
		.key = cli->key != NULL ? cli->key : "file" };
	OWN(secret_freep) struct secret *s = NULL;
	struct err err = {0};
	int r = check_words(verb, argc, argv, &err);

	r = r == 0 ? check_options(cli, verb, &err) : r;
	if (r == 0 && verb->wants_name)
		request.name = argv[0];
	if (r == 0 && verb->verb == VAULT_ADD)
		r = cli->file != NULL ? define_by_file(cli->file, argv[0], &s, &err) :
		                        define_by_options(cli, argv[0], &s, &err);
	request.secret = s;
	if (r == 0 && cli->cell != NULL)
		return secret_cli_list_cell(cli->cell, cli->json);
	if (r == 0)
		become_vault(&request, &err);
	return cli_fail(&err);
}

int
cmd_secret(int argc, char **argv)
{
	const char *names[ARRAY_LEN(verbs) + 2] = { "services" }, *nearest;
	OWN(freep) struct secret_cli *cli = calloc(1, sizeof(*cli));
	struct err err = {0};
	int rest;

	if (cli == NULL)
		return cli_failf("out of memory");
	if (cli_parse(cli_secret_options, argc, argv, true, take_option, cli, &rest, &err) < 0)
		return cli_fail(&err);
	argc -= rest;
	argv += rest;
	if (argc < 1)
		return cli_failf("`secret` needs a verb: add, list, show, rotate, remove, services or init");
	if (strcmp(argv[0], "services") == 0)
		return show_services(cli, argc - 1, argv + 1);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i + 1] = verbs[i].name;
		if (strcmp(argv[0], verbs[i].name) == 0)
			return ask_vault(cli, &verbs[i], argc - 1, argv + 1);
	}
	nearest = text_nearest(argv[0], names);
	if (nearest != NULL)
		return cli_failf("there is no `secret %.16s`: did you mean '%s'?", argv[0], nearest);
	return cli_failf("there is no such verb of `secret`: use add, list, show, rotate, remove, "
	                 "services or init");
}
