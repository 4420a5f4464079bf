/* vault_lend.c - secrets for cells of other machines: the service's vault seals them, and the cell's cloister-vault opens
 * them.
 *
 * The private key was made for this cell alone, and is in no other process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "ipc/ipc.h"
#include "proc/vault/vault_proc.h"
#include "vault/lend.h"
#include "vault/vault_request.h"

#define PATIENCE_S (LEND_PATIENCE_MS / 1000 + 10)       /* the worker gives up before */

struct lent {
	struct bound bound;
};

/* This process's own, for as long as it keeps the cell's secrets. */
static struct {
	struct guard private;
	unsigned char public[LEND_KEY];
	struct buf claim_text;
	struct lend_claim claim;
	struct lent lent;
} mine;

/* ---- for another machine ---- */

/* Its source stays here: neither the other machine's files nor its programs have the value. */
static int
pack_one(const struct vault *v, const char *name, uint64_t now, struct guard *ret_packed, struct err *err)
{
	const struct vault_entry *entry = v == NULL ? NULL : vault_find(v, name, NULL);
	OWN(secret_values_free) struct secret_values values = {0};
	const struct placeholder none = {0};
	struct secret lent;
	int r;

	if (entry == NULL)
		return 0;
	lent = *entry->secret;
	lent.from = "";
	r = vault_values(v, name, now, &values, err);
	return r < 0 ? r : bound_pack(&lent, &none, &values, ret_packed, err);
}

int
lend_all(const struct vault *v, const struct vault_request *q, uint64_t now, struct err *err)
{
	struct guard packed[VAULT_BIND_MAX] = {0};
	OWN(guard_free) struct guard all = {0};
	OWN(buf_free) struct buf box = BUF(LEND_BOX_MAX);
	size_t size = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < q->n_bind; i++) {
		r = pack_one(v, q->bind[i].name, now, &packed[i], err);
		size += packed[i].len;
	}
	if (r == 0 && size > BOUND_ENCODED_MAX)
		r = err_set(err, E2BIG, "the secrets of dispatch %s are too large", q->claim.dispatch);
	r = r == 0 ? guard_alloc(&all, size, err) : r;
	for (size_t i = 0; i < q->n_bind; i++) {
		if (r == 0 && packed[i].len > 0)
			guard_put(&all, packed[i].at, packed[i].len);
		guard_free(&packed[i]);
	}
	r = r == 0 ? lend_close(q->to, &q->claim, all.at, all.len, &box, err) : r;
	return r < 0 ? r : write_all(VAULT_BOUND_FD, box.data, box.len, err);
}

/* ---- from another machine ---- */

static int
broken(struct err *err)
{
	return err_set(err, EPIPE, "the worker that runs this cell does not bring its secrets");
}

int
lent_begin(const struct lend_claim *claim, struct err *err)
{
	struct buf copy;

	buf_init(&mine.claim_text, IPC_MESSAGE_MAX);
	lend_put_claim(&mine.claim_text, claim);
	copy = mine.claim_text;
	if (buf_failed(&mine.claim_text) || lend_get_claim(&copy, &mine.claim) < 0)
		return err_set(err, ENOMEM, "out of memory");
	return lend_make_key(&mine.private, mine.public, err);
}

/* The worker may have been started again since the cell was. */
static int
dial(struct err *err)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(freep) char *path = data_runtime_path(err);
	OWN(closep) int runtime = path == NULL ? -1 : tree_open_made(path, false, "set CLOISTER_RUNTIME_DIR", err);
	OWN(closep) int fd = runtime < 0 ? -1 : socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (runtime < 0)
		return -err->code;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" LEND_SOCKET "%.32s", runtime, mine.claim.worker);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_set(err, EPIPE, "the worker that brings this cell's secrets is not there");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return TAKE_FD(fd);
}

static int
open_box(int fd, struct err *err)
{
	OWN(buf_free) struct buf box = BUF(LEND_BOX_MAX);
	unsigned char *at;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || st.st_size > LEND_BOX_MAX || (at = buf_add(&box, (size_t)st.st_size)) == NULL ||
	    pread(fd, at, (size_t)st.st_size, 0) != (ssize_t)st.st_size)
		return broken(err);
	lent_forget();
	r = lend_open(&mine.private, mine.public, &mine.claim, box.data, box.len, &mine.lent.bound.memory, err);
	r = r == 0 ? bound_get(&mine.lent.bound, err) : r;
	return r == 0 ? 0 : err_wrap(err, "the secrets that the service lends");
}

int
lent_fetch(const char *const *names, size_t n, const struct lent **ret_lent, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	OWN(buf_free) struct buf ask = {0};
	OWN(closep) int fd = dial(err);
	const char *why;
	int r;

	if (fd < 0)
		return fd;
	ipc_begin(&ask, LEND_ASK);
	lend_put_claim(&ask, &mine.claim);
	buf_put(&ask, mine.public, LEND_KEY);
	buf_put_u32(&ask, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		buf_put_str(&ask, names[i]);
	if (ipc_send(fd, &ask, NULL, 0, NULL) < 0 || ipc_receive(fd, &answer, NULL) < 0)
		return broken(err);
	if (answer.type == LEND_REFUSED && buf_get_str(&answer.body, &why) == 0)
		return err_set(err, EPERM, "%s", why);
	if (answer.type != LEND_BOX || answer.n_fds != 1)
		return broken(err);
	r = open_box(answer.fds[0], err);
	if (r == 0)
		*ret_lent = &mine.lent;
	return r;
}

static const struct bound_secret *
find(const struct lent *lent, const char *name)
{
	for (size_t i = 0; i < lent->bound.n; i++)
		if (strcmp(lent->bound.at[i].secret->name, name) == 0)
			return &lent->bound.at[i];
	return NULL;
}

const struct secret *
lent_find(const struct lent *lent, const char *name)
{
	const struct bound_secret *one = find(lent, name);

	return one == NULL ? NULL : one->secret;
}

int
lent_values(const struct lent *lent, const char *name, struct secret_values *ret_values, struct err *err)
{
	OWN(secret_values_free) struct secret_values values = {0};
	const struct bound_secret *one = find(lent, name);
	int r = one == NULL ? err_set(err, ENOENT, "there is no secret '%s'", name) : 0;

	for (size_t i = 0; r == 0 && i < SECRET_FIELDS; i++)
		if (one->real[i].len > 0)
			r = guard_copy(&values.field[i], one->real[i].at, one->real[i].len, err);
	if (r < 0)
		return r;
	values.expires = one->expires;
	*ret_values = values;
	values = (struct secret_values){0};
	return 0;
}

void
lent_forget(void)
{
	bound_free(&mine.lent.bound);
}
