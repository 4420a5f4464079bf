/* run_secrets.c - the secrets of a cell: -s, and `secrets` in its policy.
 *
 * No value is ever in this process.  cloister-vault writes values into a memory file that only the
 * courier reads, and placeholders into one for the cell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "ipc/ipc.h"
#include "ipc/keeper_channel.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"
#include "vault/vault_request.h"

#define VARIABLES_MAX (VAULT_BIND_MAX * (SECRET_VALUE_MAX + 256))

int
run_add_secret(struct run *run, const char *text, struct err *err)
{
	struct secret_short s;
	int r = secret_short_parse(text, &s, err);

	if (r < 0)
		return err_wrap(err, "-s '%s'", text);
	if (run->n_secrets == VAULT_BIND_MAX)
		return err_set(err, E2BIG, "-s is given more than %d times", VAULT_BIND_MAX);
	return run_add_word(run->secrets, &run->n_secrets, text, "-s", err);
}

/* Only the operator may give a secret to a cell.  A policy that was found in a folder may come from
 * a stranger, as in a clone.  A policy that an agent could write may be that agent's choice of what
 * its successor gets. */
int
run_take_secrets(void *arg, const struct node *node, struct err *err)
{
	struct run *run = arg;
	struct err why = {0};

	if (run->policy_found && !run->policy_accepted)
		return node_err(err, node, "this policy gives the cell secrets, but it was found and "
		                "not named: read it, then name it with -p; or give the secrets with "
		                "-s, and ignore it with --no-policy");
	/* A document was checked as a whole. */
	if (run->policy_text == NULL && trust_path(TRUST_SECRET_LIST, node->file, &why) < 0)
		return node_err(err, node, "%s", why.text);
	return secret_wants_read(&run->wants, node, err);
}

/* If no destination is given, the policy has it, or the vault. */
static int
add_said(struct run *run, struct vault_request *q, struct secret_short *s, struct err *err)
{
	struct vault_binding *b = &q->bind[q->n_bind++];
	struct secret_want *want = secret_wants_find(&run->wants, s->name);

	*b = (struct vault_binding){ .name = s->name, .variable = s->env, .files = s->files };
	if (s->hosts != NULL)
		return secret_short_define(s, &b->secret, err);
	if (want != NULL) {
		b->secret = TAKE(want->secret);
		b->unless_known = want->unless_known;
		b->variable = s->env[0] != '\0' ? s->env : want->said.env;
		b->files = s->files[0] != '\0' ? s->files : want->said.files;
	}
	return 0;
}

static int
add_wanted(struct vault_request *q, struct secret_want *want, struct err *err)
{
	for (size_t i = 0; i < q->n_bind; i++)
		if (strcmp(q->bind[i].name, want->said.name) == 0)
			return 0;
	if (q->n_bind == VAULT_BIND_MAX)
		return err_set(err, E2BIG, "the policy and -s give more than %d secrets", VAULT_BIND_MAX);
	q->bind[q->n_bind++] = (struct vault_binding){ .name = want->said.name,
		.variable = want->said.env, .files = want->said.files, .secret = TAKE(want->secret),
		.unless_known = want->unless_known };
	return 0;
}

/* What a worker runs has the secrets of its service, and so has all that it starts: the cells of MCP servers.  RET_TEXT is
 * the claim's memory. */
static int
take_claim(struct vault_request *q, char **ret_text, struct err *err)
{
	const char *lent = getenv(LEND_VARIABLE);

	q->lent = lent != NULL && *lent != '\0';
	if (!q->lent)
		return 0;
	*ret_text = strdup(lent);
	return *ret_text == NULL ? err_set(err, ENOMEM, "out of memory") :
	       lend_claim_parse(*ret_text, &q->claim, err) == 0 ? 0 : err_wrap(err, LEND_VARIABLE "='%.128s'", lent);
}

static int
pack_request(struct run *run, int fd, struct err *err)
{
	OWN(freep) char *claim = NULL;
	OWN(vault_request_free) struct vault_request q = { .verb = VAULT_BIND, .name = "", .key = "" };
	OWN(freep) struct secret_short *words = calloc(run->n_secrets + 1, sizeof(*words));
	OWN(buf_free) struct buf b;
	int r = words == NULL ? err_set(err, ENOMEM, "out of memory") : take_claim(&q, &claim, err);

	buf_init(&b, VAULT_REQUEST_MAX);
	for (size_t i = 0; r == 0 && i < run->n_secrets; i++) {
		r = secret_short_parse(run->secrets[i], &words[i], err);
		for (size_t k = 0; r == 0 && k < i; k++)
			if (strcmp(words[k].name, words[i].name) == 0)
				r = err_set(err, EEXIST, "the secret '%s' is given twice", words[i].name);
		if (r == 0)
			r = add_said(run, &q, &words[i], err);
	}
	for (size_t i = 0; r == 0 && i < run->wants.n; i++)
		r = add_wanted(&q, &run->wants.at[i], err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < q.n_bind; i++)
		run_bind_within(run, &q.bind[i]);
	vault_request_put(&b, &q);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the cell has too many secrets");
	return write_all(fd, b.data, b.len, err);
}

/* Whether the vault stays, to renew secrets that expire: then it announces that. */
static bool
hears_keeper(int fd)
{
	OWN(ipc_message_free) struct ipc_message message = {0};

	return ipc_receive(fd, &message, NULL) == 0 && message.type == KEEPER_CURRENT;
}

/* The vault reports errors itself.  KEEPER is its end of the channel, which is closed here. */
static int
ask_vault(struct run *run, const struct spawn_fd *fds, size_t n, int keeper, struct err *err)
{
	const struct spawn how = { .argv = (char *[]){ (char[]){ "cloister-vault" }, NULL }, .fds = fds,
		.n_fds = n };
	pid_t pid = spawn_start(&how, NULL, err);

	close(keeper);
	if (pid < 0)
		return pid;
	if (hears_keeper(run->keeper_fd)) {
		run->spec.keeper = (uint32_t)pid;
		return 0;
	}
	close(TAKE_FD(run->keeper_fd));
	return cli_await_vault(pid, err);
}

/* TEXT is "NAME FIRST LAST": webhooks that go to ports of the cell. */
static int
take_ports(struct cell_spec *spec, const char *text, struct err *err)
{
	char name[SECRET_NAME_MAX + 1];
	unsigned first, last;
	bool found = false;

	if (sscanf(text, "%64s %u %u", name, &first, &last) != 3)
		return err_set(err, EIO, "cannot read the output of cloister-vault");
	for (size_t i = 0; i < spec->n_ports; i++)
		if (spec->ports[i].cell >= first && spec->ports[i].cell <= last) {
			spec->webhook_ports |= 1u << i;
			found = true;
		}
	return found ? 0 : err_set(err, EINVAL, "the webhooks of '%s' come to the cell's port %u, "
	                           "which is not published: add --publish %u", name, first, first);
}

/* Reads all of the memory file FD, and adds a NUL; the caller owns *ret_text. */
static int
read_back(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	return read_whole(fd, max, ret_text, ret_len, err) == 0 ? 0 :
	       err_set(err, EIO, "cannot read the output of cloister-vault");
}

static int
take_files(struct run *run, int fd, struct err *err)
{
	struct cell_spec *spec = &run->spec;
	OWN(freep) char *text = NULL;
	struct buf b;
	size_t len;
	int r = read_back(fd, VAULT_FILES_MAX, &text, &len, err);

	if (r < 0)
		return r;
	buf_init_borrowed(&b, text, len);
	while (r == 0 && buf_left(&b) > 0) {
		struct cell_file *file = &spec->files[spec->n_files];

		if (spec->n_files == CELL_FILES_MAX)
			return err_set(err, E2BIG, "the cell has more than %d files of secrets", CELL_FILES_MAX);
		spec->n_files++;
		r = buf_dup_str(&b, &file->path);
		if (r == 0)
			r = buf_dup_str(&b, &file->text);
	}
	return r < 0 ? err_set(err, EIO, "cannot read the output of cloister-vault") : 0;
}

static int
add_described(struct cell_spec *spec, const char *text, struct err *err)
{
	size_t n = 0;

	if (spec->secrets == NULL)
		spec->secrets = calloc(CELL_SECRETS_MAX + 1, sizeof(char *));
	while (spec->secrets != NULL && spec->secrets[n] != NULL)
		n++;
	if (n == CELL_SECRETS_MAX || spec->secrets == NULL || (spec->secrets[n] = strdup(text)) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

/* Handles lines other than placeholders; 1: TEXT is a placeholder. */
static int
take_told(struct run *run, const char *text, struct err *err)
{
	int r;

	switch (text[0]) {
	case '*':
		return add_described(&run->spec, text + 1, err);
	case '=':
		return take_ports(&run->spec, text + 1, err);
	case '<':
	case '>':
		/* A process that can change this file or command can change the operator's secret.
		 * The vault does not know what this cell may write. */
		r = trust_path(text[0] == '<' ? TRUST_SECRET_FILE : TRUST_SECRET_COMMAND, text + 1, err);
		return r < 0 ? r : run_add_source(run, text + 1, err);
	default:
		return 1;
	}
}

static int
take_placeholders(struct run *run, int fd, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len, n = 0;
	int r = read_back(fd, VARIABLES_MAX, &text, &len, err);

	if (r < 0)
		return r;
	/* Each ends with a NUL and has a name. */
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\0';
	run->placeholders = calloc(n + 1, sizeof(char *));
	if (run->placeholders == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = 0;
	for (char *at = text; at < text + len; at += strlen(at) + 1) {
		r = take_told(run, at, err);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		run->placeholders[n] = strdup(at);
		if (run->placeholders[n++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

int
run_finish_secrets(struct run *run, struct err *err)
{
	OWN(closep) int request = -1, variables = -1, files = -1, hosts = -1;
	int ends[2], r;
	size_t len;

	r = run_narrow_secrets(run, err);
	if (r < 0)
		return r;
	if (run->n_secrets == 0 && run->wants.n == 0)
		return 0;
	if (!run->spec.has_policy)
		return err_set(err, EINVAL, "a secret needs a policy that allows its hosts: add -p or "
		               "--allow");
	request = memfd_create("request", MFD_CLOEXEC);
	variables = memfd_create("placeholders", MFD_CLOEXEC);
	files = memfd_create("files", MFD_CLOEXEC);
	hosts = memfd_create("hosts", MFD_CLOEXEC);
	run->secrets_fd = memfd_create("secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (request < 0 || variables < 0 || files < 0 || hosts < 0 || run->secrets_fd < 0)
		return err_errno(err, "cannot create a memory file");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot create a channel");
	run->keeper_fd = ends[0];
	run->spec.has_secrets = true;
	r = pack_request(run, request, err);
	if (r == 0) {
		const struct spawn_fd fds[] = { { request, VAULT_REQUEST_FD }, { run->secrets_fd, VAULT_BOUND_FD },
			{ variables, VAULT_VARIABLES_FD }, { files, VAULT_FILES_FD }, { ends[1], VAULT_KEEPER_FD },
			{ hosts, VAULT_HOSTS_FD } };

		r = ask_vault(run, fds, ARRAY_LEN(fds), ends[1], err);
	}
	if (r == 0)
		r = run_seal(run->secrets_fd, err);
	if (r == 0)
		r = take_files(run, files, err);
	if (r == 0)
		r = read_back(hosts, CELL_KNOWN_HOSTS_MAX, &run->spec.known_hosts, &len, err);
	return r < 0 ? r : take_placeholders(run, variables, err);
}
