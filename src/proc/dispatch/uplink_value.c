/* uplink_value.c - see uplink_parts.h: a new value of a secret for a cell that runs here.
 *
 * cloister-vault asks for it as for those with which the cell began, and opens the box; this process only hands its file on. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "ipc/lend_channel.h"
#include "proc/dispatch/uplink_parts.h"
#include "vault/vault_request.h"

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct uplink_value {
	struct child vault;
	int value, others, said;        /* memory files */
	uplink_fetched *fetched;
	void *arg;
};

static void
vault_ended(void *arg, bool exited, int status)
{
	struct uplink_value *v = arg;
	char why[LEND_WHY_MAX];
	struct err err = {0};

	if (!exited || status != 0) {
		tell_read(v->said, "its value cannot be fetched", why, sizeof(why));
		(void)err_set(&err, EPERM, "%s", why);
	} else if (fcntl(v->value, F_ADD_SEALS, SEALS) < 0) {
		(void)err_errno(&err, "cannot seal a memory file");
	}
	v->fetched(v->arg, err.code == 0 ? v->value : -1, &err);
}

static int
start_vault(struct uplink_value *v, struct loop *loop, const struct vault_request *request, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(VAULT_REQUEST_MAX);
	OWN(closep) int asked = memfd_create("vault-request", MFD_CLOEXEC);
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO }, { v->said, STDERR_FILENO },
		{ asked, VAULT_REQUEST_FD }, { v->value, VAULT_BOUND_FD }, { v->others, VAULT_VARIABLES_FD },
		{ v->others, VAULT_FILES_FD }, { v->others, VAULT_HOSTS_FD } };
	int r;

	vault_request_put(&b, request);
	if (asked < 0 || v->value < 0 || v->others < 0 || v->said < 0 || buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	r = write_all(asked, b.data, b.len, err);
	return r < 0 ? r : child_start(&v->vault, loop, &(struct spawn){
		.argv = (char *[]){ (char[]){ "cloister-vault" }, NULL }, .fds = fds, .n_fds = ARRAY_LEN(fds),
		.flags = SPAWN_APART }, err);
}

int
uplink_value_fetch(struct loop *loop, const struct lend_claim *claim, const char *name, uplink_fetched *fetched, void *arg,
                   struct uplink_value **ret_value, struct err *err)
{
	const struct vault_request request = { .verb = VAULT_VALUE, .name = "", .key = "", .lent = true, .claim = *claim,
		.n_bind = 1, .bind = { { .name = name, .variable = "", .files = "" } } };
	struct uplink_value *v = calloc(1, sizeof(*v));
	int r;

	if (v == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*v = (struct uplink_value){ .vault = { .ended = vault_ended, .arg = v }, .fetched = fetched, .arg = arg,
		.value = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING), .others = memfd_create("others", MFD_CLOEXEC),
		.said = memfd_create("said", MFD_CLOEXEC) };
	r = start_vault(v, loop, &request, err);
	if (r < 0) {
		uplink_value_drop(v);
		return r;
	}
	*ret_value = v;
	return 0;
}

void
uplink_value_drop(struct uplink_value *v)
{
	if (v == NULL)
		return;
	child_drop(&v->vault);
	closep(&v->value);
	closep(&v->others);
	closep(&v->said);
	free(v);
}
