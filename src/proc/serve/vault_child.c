/* vault_child.c - see vault_child.h. */
#include "proc/serve/vault_child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "base/spawn.h"
#include "canon/canon.h"
#include "vault/vault_request.h"

static int
make_file(const char *name)
{
	return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/* The content of FD, at most VAULT_SAYS_MAX; the caller owns it. */
static char *
read_back(int fd, size_t *ret_len)
{
	char *text = NULL;

	(void)read_whole(fd, VAULT_SAYS_MAX, &text, ret_len, NULL);
	return text;
}

/* Fails with the one sentence that the vault printed. */
static int
fail_as_said(int said, struct err *err)
{
	char why[sizeof(err->text)];

	tell_read(said, "the vault cannot be opened", why, sizeof(why));
	return err_set(err, ENOENT, "%s", why);
}

/* VALUE -1: no value is wanted.  OUT gets its output. */
static int
run(const struct vault_request *request, int value, int out, struct err *err)
{
	OWN(closep) int asked = make_file("vault-request"), said = make_file("said"), others = make_file("others");
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { asked, VAULT_REQUEST_FD },
		{ out, STDOUT_FILENO }, { said, STDERR_FILENO }, { value, VAULT_BOUND_FD },
		{ others, VAULT_VARIABLES_FD }, { others, VAULT_FILES_FD }, { others, VAULT_HOSTS_FD } };
	const struct spawn how = { .argv = (char *[]){ (char[]){ "cloister-vault" }, NULL }, .fds = fds,
		.n_fds = value < 0 ? 4 : ARRAY_LEN(fds), .flags = SPAWN_APART };
	OWN(buf_free) struct buf b = BUF(VAULT_REQUEST_MAX);
	int r;

	vault_request_put(&b, request);
	if (asked < 0 || said < 0 || others < 0 || out < 0 || buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	r = write_all(asked, b.data, b.len, err);
	r = r == 0 ? spawn_run(&how, err) : r;
	return r <= 0 ? r : fail_as_said(said, err);
}

int
vault_child_list(json_t **ret_list, struct err *err)
{
	const struct vault_request request = { .verb = VAULT_LIST, .json = true, .name = "", .key = "" };
	OWN(closep) int out = make_file("list");
	OWN(freep) char *text = NULL;
	json_t *list;
	size_t len = 0;
	int r = run(&request, -1, out, err);

	if (r < 0)
		return r;
	text = read_back(out, &len);
	list = text == NULL ? NULL : canon_value(text, len);
	if (list == NULL)
		return err_set(err, EIO, "cloister-vault did not list the secrets");
	*ret_list = list;
	return 0;
}

/* The cell knows where it may go. */
int
vault_child_value(const char *name, struct err *err)
{
	OWN(vault_request_free) struct vault_request request = { .verb = VAULT_VALUE, .name = "", .key = "",
		.n_bind = 1, .bind = { { .name = name, .variable = "", .files = "" } } };
	OWN(closep) int value = make_file("value"), out = make_file("out");
	int r;

	if (value < 0)
		return err_errno(err, "cannot make a memory file");
	r = run(&request, value, out, err);
	if (r < 0)
		return r;
	if (fcntl(value, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_errno(err, "cannot seal a memory file");
	return TAKE_FD(value);
}
