/* run_secrets.c - the secrets of a cell: -s.
 *
 * No value is ever here.  cloister-vault writes values into a memory file that only the
 * courier reads, and placeholders into one for the cell. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/cli.h"
#include "cli/run.h"
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
		return err_set(err, E2BIG, "-s is given over %d times", VAULT_BIND_MAX);
	return run_add_word(run->secrets, &run->n_secrets, text, "-s", err);
}

/* Where nothing is said of where it may go, the vault knows. */
static int
add_binding(struct vault_request *q, struct secret_short *s, struct err *err)
{
	struct vault_binding *b = &q->bind[q->n_bind];

	*b = (struct vault_binding){ .name = s->name, .variable = s->env };
	if (s->hosts != NULL) {
		int r = secret_short_define(s, &b->secret, err);

		if (r < 0)
			return r;
	}
	q->n_bind++;
	return 0;
}

static int
pack_request(const struct run *run, int fd, struct err *err)
{
	OWN(vault_request_free) struct vault_request q = { .verb = VAULT_BIND, .name = "", .key = "" };
	OWN(freep) struct secret_short *words = calloc(run->n_secrets, sizeof(*words));
	OWN(buf_free) struct buf b;
	int r = words == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	buf_init(&b, VAULT_REQUEST_MAX);
	for (size_t i = 0; r == 0 && i < run->n_secrets; i++) {
		r = secret_short_parse(run->secrets[i], &words[i], err);
		for (size_t k = 0; r == 0 && k < i; k++)
			if (strcmp(words[k].name, words[i].name) == 0)
				r = err_set(err, EEXIST, "the secret '%s' is given twice", words[i].name);
		if (r == 0)
			r = add_binding(&q, &words[i], err);
	}
	if (r < 0)
		return r;
	vault_request_put(&b, &q);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the cell's secrets are too many");
	return write_all(fd, b.data, b.len, err);
}

/* In a child: FDS become what it expects. */
static void
become_vault(const int fds[3])
{
	static const int at[] = { VAULT_REQUEST_FD, VAULT_BOUND_FD, VAULT_VARIABLES_FD };
	struct err err = {0};

	if (cli_place(fds, at, ARRAY_LEN(at), &err) == 0)
		(void)cli_become("cloister-vault", environ, &err);
	_exit(cli_fail(&err));
}

/* It says itself what is wrong. */
static int
ask_vault(const int fds[3], struct err *err)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return err_errno(err, "cannot start cloister-vault");
	if (pid == 0)
		become_vault(fds);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot wait for cloister-vault");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		exit(CLI_FAILED);
	return 0;
}

/* TEXT is "NAME FIRST LAST": webhooks that come to ports of the cell. */
static int
take_ports(struct cell_spec *spec, const char *text, struct err *err)
{
	char name[SECRET_NAME_MAX + 1];
	unsigned first, last;
	bool found = false;

	if (sscanf(text, "%64s %u %u", name, &first, &last) != 3)
		return err_set(err, EIO, "cannot read what cloister-vault wrote");
	for (size_t i = 0; i < spec->n_ports; i++)
		if (spec->ports[i].cell >= first && spec->ports[i].cell <= last) {
			spec->webhook_ports |= 1u << i;
			found = true;
		}
	return found ? 0 : err_set(err, EINVAL, "the webhooks of '%s' come to the cell's port %u, which is "
	                           "not published: --publish %u", name, first, first);
}

static int
take_placeholders(struct run *run, int fd, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct stat st;
	size_t len, n = 0;

	if (fstat(fd, &st) < 0 || st.st_size > VARIABLES_MAX || lseek(fd, 0, SEEK_SET) < 0)
		return err_set(err, EIO, "cannot read what cloister-vault wrote");
	len = (size_t)st.st_size;
	text = malloc(len + 1);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (read_exactly(fd, text, len, err) < 0)
		return -EIO;
	/* Each ends with a NUL and has a name; this is only to be sure. */
	text[len] = '\0';
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\0';
	run->placeholders = calloc(n + 1, sizeof(char *));
	if (run->placeholders == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = 0;
	for (char *at = text; at < text + len; at += strlen(at) + 1) {
		if (*at == '=') {
			int r = take_ports(&run->spec, at + 1, err);

			if (r < 0)
				return r;
			continue;
		}
		run->placeholders[n] = strdup(at);
		if (run->placeholders[n++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

int
run_finish_secrets(struct run *run, struct err *err)
{
	OWN(closep) int request = -1, variables = -1;
	int r;

	if (run->n_secrets == 0)
		return 0;
	if (!run->spec.has_policy)
		return err_set(err, EINVAL, "a secret is of no use without a policy that lets it go "
		               "somewhere: see -p and --allow");
	request = memfd_create("request", MFD_CLOEXEC);
	variables = memfd_create("placeholders", MFD_CLOEXEC);
	run->secrets_fd = memfd_create("secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (request < 0 || variables < 0 || run->secrets_fd < 0)
		return err_errno(err, "cannot make a memory file");
	run->spec.has_secrets = true;
	r = pack_request(run, request, err);
	if (r == 0)
		r = ask_vault((int[]){ request, run->secrets_fd, variables }, err);
	if (r == 0)
		r = run_seal(run->secrets_fd, err);
	return r < 0 ? r : take_placeholders(run, variables, err);
}
