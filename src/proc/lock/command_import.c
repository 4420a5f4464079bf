/* command_import.c - `cloister tools import`: takes servers over from other clients' files, and keys into the vault. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "proc/lock/import.h"
#include "proc/lock/lock_proc.h"
#include "trust/trust.h"
#include "vault/catalogue.h"

struct importing {
	const struct args *args;
	const char *policy;             /* its path */
	char *text;                     /* of the policy; owned */
	size_t len;
	struct node *root;              /* of the policy; owned; NULL: there is none */
	struct import import;
	bool moves;                     /* credentials into the vault */
};

static void
importing_free(struct importing *im)
{
	free(im->text);
	node_free(im->root);
	import_free(&im->import);
}

/* ---- what is there ---- */

static const struct node *
servers_of(const struct node *root)
{
	const struct node *tools = root != NULL && root->kind == NODE_MAP ? node_get(root, "tools") : NULL;
	const struct node *servers = tools != NULL && tools->kind == NODE_MAP ? node_get(tools, "servers") : NULL;

	return servers != NULL && servers->kind == NODE_MAP && servers->n > 0 ? servers : NULL;
}

static int
read_policy(struct importing *im, struct err *err)
{
	const char *file = args_get(im->args, "policy");

	im->policy = file != NULL ? file : "cloister.yaml";
	if (access(im->policy, F_OK) < 0 && errno == ENOENT) {
		im->text = strdup("version: 1\n");
		im->len = im->text != NULL ? strlen(im->text) : 0;
		return im->text != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
	}
	if (trust_read(TRUST_POLICY, im->policy, POLICY_FILE_MAX, &im->text, &im->len, err) < 0 ||
	    node_parse(im->policy, im->text, im->len, &im->root, err) < 0)
		return -EINVAL;
	if (im->root->kind == NODE_MAP && node_get(im->root, "tools") != NULL && servers_of(im->root) == NULL)
		return err_set(err, EINVAL, "'%s' has `tools` without servers: add `servers`, or remove it", im->policy);
	if (servers_of(im->root) != NULL && servers_of(im->root)->items[0]->line == node_get(im->root, "tools")->line)
		return err_set(err, EINVAL, "'%s' has its servers on one line: write each on lines of its own", im->policy);
	return 0;
}

/* The files of this folder, in the order in which clients look for them. */
static const char *
find_file(const struct args *args)
{
	static const char *const files[] = { ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json" };

	if (args->n_words > 0)
		return args->words[0];
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
	return NULL;
}

/* ---- the vault ---- */

static int
run_secret(char *const *argv, const char *value, struct err *err)
{
	char program[PATH_MAX];
	OWN(closep) int fd = value != NULL ? keeper_text_fd(value, strlen(value), err) : -1;
	int r = exe_find_cloister(program, err);

	if (r < 0 || (value != NULL && fd < 0))
		return -EIO;
	return spawn_run(&(struct spawn){ .argv = argv, .path = program, .n_fds = value != NULL ? 2 : 3,
		.fds = (struct spawn_fd[]){ { value != NULL ? fd : SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		                            { SPAWN_NULL, STDERR_FILENO } }, .flags = SPAWN_DIES }, err);
}

static bool
is_in_vault(const char *name)
{
	char *argv[] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "show" }, (char *)(uintptr_t)name, NULL };

	return run_secret(argv, NULL, NULL) == 0;
}

/* The value of --host NAME=HOST, or NULL. */
static const char *
host_given(const struct args *args, const char *name)
{
	const size_t len = strlen(name);
	const char *value;
	size_t at = 0;

	while ((value = args_next(args, "host", &at)) != NULL)
		if (strncmp(value, name, len) == 0 && value[len] == '=')
			return value + len + 1;
	return NULL;
}

static int
add_secret(const struct importing *im, const struct imported *server, const struct imported_value *value, struct err *err)
{
	const char *host = *server->host != '\0' ? server->host : host_given(im->args, value->variable);
	OWN(freep) char *question = str_format("cloister: to which host may %s be sent? ", value->variable);
	OWN(freep) char *host_word = NULL, *env_word = str_format("--env=%s", value->variable);
	char line[256];
	char *argv[8] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "add" } };
	size_t n = 3;
	int status;

	if (host == NULL && catalogue_find(value->variable) == NULL && question != NULL && ask_line(question, line, sizeof(line)))
		host = line;
	if (host == NULL && catalogue_find(value->variable) == NULL)
		return err_set(err, EINVAL, "nothing shows where '%s' may be sent: give it with --host %s=HOST, or leave keys where they "
		               "are with --no-secrets", value->variable, value->variable);
	host_word = host != NULL ? str_format("--host=%s", host) : NULL;
	if (env_word == NULL || (host != NULL && host_word == NULL))
		return err_set(err, ENOMEM, "out of memory");
	if (host_word != NULL)
		argv[n++] = host_word;
	argv[n++] = env_word;
	argv[n++] = (char *)(uintptr_t)value->variable;
	status = run_secret(argv, value->value, err);
	return status < 0 ? status : status > 0 ? err_set(err, EIO, "the secret '%s' could not be stored", value->variable) : 0;
}

/* In the file, a reference takes the place of the key. */
static int
replace_in_file(const char *file, const struct imported_value *value, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(buf_free) struct buf b = BUF(IMPORT_FILE_MAX + 65536);
	OWN(json_decrefp) json_t *string = json_string(value->value);
	OWN(freep) char *quoted = string != NULL ? json_dumps(string, JSON_ENCODE_ANY) : NULL, *path = realpath(file, NULL);
	const char *at, *found;
	size_t len, n;
	int r = read_file_at(AT_FDCWD, file, IMPORT_FILE_MAX, &text, &len, err);

	if (r < 0 || quoted == NULL || path == NULL)
		return r < 0 ? r : err_set(err, ENOMEM, "out of memory");
	/* Without its quotes: it may follow "Bearer ". */
	quoted[strlen(quoted) - 1] = '\0';
	n = strlen(quoted + 1);
	for (at = text; (found = memmem(at, (size_t)(text + len - at), quoted + 1, n)) != NULL; at = found + n) {
		buf_put(&b, at, (size_t)(found - at));
		buf_put_text(&b, "${");
		buf_put_text(&b, value->variable);
		buf_put_text(&b, "}");
	}
	buf_put(&b, at, (size_t)(text + len - at));
	return buf_failed(&b) ? err_set(err, E2BIG, "'%s' is too large", file) : keeper_write(path, b.data, b.len, err);
}

static int
move_secrets(const struct importing *im, const struct imported *server, struct err *err)
{
	for (size_t i = 0; i < server->n_values; i++) {
		const struct imported_value *value = &server->values[i];
		int r = 0;

		if (!value->is_secret)
			continue;
		if (is_in_vault(value->variable)) {
			printf("%s: the vault has it already, and keeps its value\n", value->variable);
			continue;
		}
		if (value->value == NULL || !im->moves) {
			printf("%s: add its value with `cloister secret add %s --env %s`\n", value->variable, value->variable,
			       value->variable);
			continue;
		}
		r = add_secret(im, server, value, err);
		if (r == 0 && value->in_file)
			r = replace_in_file(im->import.file, value, err);
		if (r < 0)
			return r;
		printf("%s: moved into the vault\n", value->variable);
	}
	return 0;
}

/* Their names: "A, B". */
static size_t
list_secrets(const struct import *import, struct buf *names)
{
	size_t n = 0;

	for (size_t i = 0; i < import->n; i++)
		for (size_t k = 0; k < import->servers[i].n_values; k++) {
			const struct imported_value *value = &import->servers[i].values[k];

			if (!value->is_secret || value->value == NULL)
				continue;
			buf_put_text(names, n++ > 0 ? ", " : "");
			definition_put_clean(names, value->variable, strlen(value->variable));
		}
	buf_put(names, "", 1);
	return n;
}

static int
decide_moves(struct importing *im, struct err *err)
{
	OWN(buf_free) struct buf names = BUF(IMPORT_FILE_MAX);
	const size_t n = list_secrets(&im->import, &names);
	OWN(freep) char *looks = str_format("%s look%s like %s", buf_failed(&names) ? "Some values" : (char *)names.data,
	                                    n == 1 ? "s" : "", n == 1 ? "a credential" : "credentials");
	char question[1024], otherwise[1024];
	const char *it = n == 1 ? "it" : "them";
	int r;

	im->moves = args_get(im->args, "yes") != NULL;
	if (n == 0 || im->moves || args_get(im->args, "no-secrets") != NULL || args_get(im->args, "dry-run") != NULL)
		return 0;
	if (looks == NULL)
		return err_set(err, ENOMEM, "out of memory");
	snprintf(question, sizeof(question), "cloister: %.600s.  Move %s into the vault, and put references in the file? [y/N] ",
	         looks, it);
	snprintf(otherwise, sizeof(otherwise), "%.600s: --yes moves %s into the vault, --no-secrets leaves %s in the file", looks, it,
	         it);
	r = ask_yes(question, otherwise, err);
	im->moves = r > 0;
	return r < 0 ? r : 0;
}

/* ---- the policy ---- */

static void
put_word(struct buf *b, const char *text)
{
	policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .plain = false, .text = (char *)(uintptr_t)text });
}

static void
put_command(struct buf *b, const char *indent, const struct imported *server, const struct import_grants *grants)
{
	/* A cell does not have the PATH of its operator. */
	const bool is_elsewhere = grants->program.run != NULL && !program_is_usual(grants->program.run);
	json_t *word;
	size_t i;

	buf_put_text(b, indent);
	buf_put_text(b, "command: [");
	put_word(b, is_elsewhere ? grants->program.run : server->command);
	json_array_foreach((json_t *)(uintptr_t)server->args, i, word) {
		buf_put_text(b, ", ");
		put_word(b, json_is_string(word) ? json_string_value(word) : "");
	}
	buf_put_text(b, "]\n");
}

/* The client starts it in the project's folder. */
static void
put_folder(struct buf *b, const char *indent, const struct imported *server, const char *policy)
{
	bool needs = strchr(server->command, '/') != NULL && import_is_here(server->command);
	json_t *word;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)server->args, i, word)
		needs |= import_is_here(json_string_value(word));
	if (!needs || strchr(policy, '/') != NULL)
		return;
	buf_put_text(b, indent);
	buf_put_text(b, "folder: .\n");
}

static void
put_reads(struct buf *b, const char *indent, const struct import_grants *grants)
{
	if (grants->n_reads == 0)
		return;
	buf_put_text(b, indent);
	buf_put_text(b, "read: [");
	for (size_t i = 0; i < grants->n_reads; i++) {
		buf_put_text(b, i > 0 ? ", " : "");
		put_word(b, grants->reads[i]);
	}
	buf_put_text(b, "]\n");
}

/* The folders of the program's interpreter, in front of those of all cells. */
static void
put_path(struct buf *b, const struct import_grants *grants)
{
	OWN(buf_free) struct buf path = BUF(PROGRAM_BINS_MAX * PATH_MAX);

	for (size_t i = 0; i < grants->program.n_bins; i++) {
		buf_put_text(&path, grants->program.bins[i]);
		buf_put_text(&path, ":");
	}
	buf_put_text(&path, PROGRAM_USUAL_PATH);
	buf_put(&path, "", 1);
	buf_put_text(b, "PATH: ");
	put_word(b, (const char *)path.data);
}

static void
put_values(struct buf *b, const char *indent, const struct imported *server, const struct import_grants *grants)
{
	const char *comma = "";
	bool has_path = grants->program.n_bins == 0;
	size_t n = 0;

	for (size_t i = 0; i < server->n_values; i++) {
		n += !server->values[i].is_secret && server->values[i].value != NULL;
		has_path |= strcmp(server->values[i].variable, "PATH") == 0;
	}
	if (n == 0 && has_path)
		return;
	buf_put_text(b, indent);
	buf_put_text(b, "env: {");
	if (!has_path) {
		put_path(b, grants);
		comma = ", ";
	}
	for (size_t i = 0; i < server->n_values; i++) {
		if (server->values[i].is_secret || server->values[i].value == NULL)
			continue;
		buf_put_text(b, comma);
		put_word(b, server->values[i].variable);
		buf_put_text(b, ": ");
		put_word(b, server->values[i].value);
		comma = ", ";
	}
	buf_put_text(b, "}\n");
}

/* A host to which a person lets a key be sent is one that its server reaches.  Returns how many there are. */
static size_t
put_egress(struct buf *b, const struct importing *im, const struct imported *server)
{
	const char *host = server->url != NULL ? server->host : NULL;
	size_t n = 0;

	for (size_t i = 0; i < (server->url != NULL ? 1 : server->n_values); i++) {
		if (server->url == NULL)
			host = server->values[i].is_secret ? host_given(im->args, server->values[i].variable) : NULL;
		if (host == NULL)
			continue;
		buf_put_text(b, n++ == 0 ? "egress: [{allow: " : ", {allow: ");
		put_word(b, host);
		buf_put_text(b, "}");
	}
	buf_put_text(b, n > 0 ? "]" : "");
	return n;
}

static void
put_policy(struct buf *b, const char *indent, const struct importing *im, const struct imported *server)
{
	const char *comma = "";
	size_t n = 0;

	for (size_t i = 0; i < server->n_values; i++)
		n += server->values[i].is_secret;
	if (n == 0 && server->url == NULL)
		return;
	buf_put_text(b, indent);
	buf_put_text(b, "policy: {");
	if (put_egress(b, im, server) > 0)
		buf_put_text(b, n > 0 ? ", " : "");
	buf_put_text(b, n > 0 ? "secrets: [" : "");
	for (size_t i = 0; i < server->n_values; i++)
		if (server->values[i].is_secret) {
			buf_put_text(b, comma);
			put_word(b, server->values[i].variable);
			comma = ", ";
		}
	buf_put_text(b, n > 0 ? "]}\n" : "}\n");
}

static int
put_server(struct buf *b, const char *indent, const struct importing *im, const struct imported *server, struct err *err)
{
	OWN(import_grants_free) struct import_grants grants = {0};
	char inner[64];
	int r = import_grants_find(server, &grants, err);

	if (r < 0)
		return r;
	snprintf(inner, sizeof(inner), "%.56s  ", indent);
	buf_put_text(b, indent);
	buf_put_text(b, server->name);
	buf_put_text(b, ":\n");
	if (server->url != NULL) {
		buf_put_text(b, inner);
		buf_put_text(b, "url: ");
		put_word(b, server->url);
		buf_put_text(b, "\n");
	} else {
		put_command(b, inner, server, &grants);
		put_folder(b, inner, server, im->policy);
		put_reads(b, inner, &grants);
	}
	put_values(b, inner, server, &grants);
	put_policy(b, inner, im, server);
	return 0;
}

/* Where line N of TEXT begins. */
static size_t
line_at(const char *text, size_t len, size_t n)
{
	const char *at = text;

	for (; n > 1 && at != NULL; n--) {
		at = memchr(at, '\n', (size_t)(text + len - at));
		at = at != NULL ? at + 1 : NULL;
	}
	return at != NULL ? (size_t)(at - text) : len;
}

/* The new policy: the old text, with the servers in front of its first, or at its end. */
static int
put_all(struct buf *b, const struct importing *im, size_t *ret_n, struct err *err)
{
	const struct node *servers = servers_of(im->root);
	const size_t at = servers != NULL ? line_at(im->text, im->len, servers->items[0]->line) : im->len;
	char indent[64] = "    ";
	size_t n = 0;
	int r = 0;

	if (servers != NULL)
		snprintf(indent, sizeof(indent), "%*s", (int)(servers->items[0]->column - 1), "");
	buf_put(b, im->text, at);
	if (at > 0 && im->text[at - 1] != '\n')
		buf_put_text(b, "\n");
	for (size_t i = 0; r == 0 && i < im->import.n; i++) {
		const struct imported *server = &im->import.servers[i];

		if (servers != NULL && node_get(servers, server->name) != NULL) {
			printf("%s: '%s' has it already\n", server->name, im->policy);
			continue;
		}
		if (servers == NULL && n == 0)
			buf_put_text(b, "tools:\n  servers:\n");
		r = put_server(b, indent, im, server, err);
		n++;
	}
	buf_put(b, im->text + at, im->len - at);
	*ret_n = n;
	return r;
}

static int
write_all_of(struct importing *im, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX);
	const char *named = args_get(im->args, "policy");
	size_t n;
	int r = put_all(&b, im, &n, err);

	if (r < 0)
		return r;
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the policy would be over %u KiB", POLICY_FILE_MAX / 1024);
	if (args_get(im->args, "dry-run") != NULL) {
		text_print_safe(stdout, (const char *)b.data, b.len, true);
		return 0;
	}
	if (n == 0)
		return 0;
	for (size_t i = 0; i < im->import.n; i++) {
		r = move_secrets(im, &im->import.servers[i], err);
		if (r < 0)
			return r;
	}
	r = keeper_write(im->policy, b.data, b.len, err);
	if (r == 0)
		printf("%s has %zu more server%s: state what %s may read, write and reach, then run `cloister tools lock%s%s`\n",
		       im->policy, n, n == 1 ? "" : "s", n == 1 ? "it" : "each", named != NULL ? " -p " : "", named != NULL ? named : "");
	return r;
}

int
command_import(const struct args *args, struct err *err)
{
	OWN(importing_free) struct importing im = { .args = args };
	OWN(freep) char *folder = realpath(".", NULL);
	const char *file = find_file(args);
	int r;

	if (file == NULL)
		return err_set(err, ENOENT, "there is no .mcp.json and no .vscode/mcp.json here: name the file, such as "
		               "~/.claude.json");
	r = read_policy(&im, err);
	r = r == 0 ? import_read(file, folder != NULL ? folder : "/", &im.import, err) : r;
	r = r == 0 ? decide_moves(&im, err) : r;
	return r == 0 ? write_all_of(&im, err) : r;
}
