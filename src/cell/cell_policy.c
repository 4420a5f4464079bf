/* cell_policy.c - see cell_policy.h. */
#include "cell/cell_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy.h"

/* ---- memory files ---- */

static int
make_file(const char *name, const void *data, size_t len, int seals, struct err *err)
{
	OWN(closep) int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return err_errno(err, "cannot make a memory file");
	r = write_all(fd, data, len, err);
	if (r == 0 && fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		r = err_errno(err, "cannot seal a memory file");
	return r < 0 ? r : TAKE_FD(fd);
}

int
cell_policy_seal(const char *name, const void *data, size_t len, struct err *err)
{
	return make_file(name, data, len, F_SEAL_WRITE, err);
}

int
cell_policy_counts(const uint64_t *counts, size_t n, struct err *err)
{
	OWN(freep) uint64_t *none = counts != NULL || n == 0 ? NULL : calloc(n, sizeof(*none));

	if (counts == NULL && n > 0 && none == NULL)
		return err_set(err, ENOMEM, "out of memory");
	return make_file("counts", counts != NULL ? counts : none, n * sizeof(*counts), 0, err);
}

static int
read_file(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	int r = fd < 0 ? -EFBIG : read_whole(fd, max, ret_text, ret_len, err);

	return r == -EFBIG ? err_set(err, EBADMSG, "the cell's supervisor is of another version") :
	       r < 0 ? err_wrap(err, "what the cell's supervisor sent") : 0;
}

/* ---- reading ---- */

void
cell_policy_now_free(struct cell_policy_now *now)
{
	policy_free(now->policy);
	free(now->principal);
	free(now->chain);
	free(now->text);
	free(now->counts);
	*now = (struct cell_policy_now){0};
}

static int
read_now(struct ipc_message *answer, struct cell_policy_now *now, struct err *err)
{
	OWN(freep) char *encoded = NULL, *counts = NULL;
	const char *hash;
	struct buf b;
	size_t len, n;
	int r;

	if (buf_get_str(&answer->body, &hash) < 0 || strlen(hash) > HASH_NAME ||
	    buf_get_u64(&answer->body, &now->times) < 0 ||
	    buf_dup_str(&answer->body, &now->principal) < 0 ||
	    buf_dup_str(&answer->body, &now->chain) < 0 || answer->n_fds != 3)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	snprintf(now->hash, sizeof(now->hash), "%s", hash);
	r = read_file(answer->fds[0], POLICY_ENCODED_MAX, &encoded, &len, err);
	r = r == 0 ? read_file(answer->fds[1], POLICY_ENCODED_MAX, &now->text, &now->len, err) : r;
	r = r == 0 ? read_file(answer->fds[2], POLICY_ENCODED_MAX, &counts, &n, err) : r;
	if (r < 0)
		return r;
	buf_init_borrowed(&b, encoded, len);
	r = policy_get(&b, &now->policy, err);
	if (r < 0)
		return r;
	now->n_counts = policy_n_rules(now->policy);
	if (n < now->n_counts * sizeof(*now->counts))
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	now->counts = (uint64_t *)(void *)TAKE(counts);
	return 0;
}

int
cell_policy_get(int runtime, const struct cell_entry *entry, struct cell_policy_now *ret_now,
                struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = { .fds = { -1, -1, -1, -1 } };
	OWN(cell_policy_now_free) struct cell_policy_now now = {0};
	OWN(closep) int socket = cell_connect(runtime, entry, err);
	OWN(buf_free) struct buf message = {0};
	int r;

	if (socket < 0)
		return socket;
	cell_steer_put(&message, NULL, &(struct steer_request){ .verb = VERB_GET_POLICY });
	r = cell_steer(socket, &message, NULL, 0, &answer, err);
	r = r == 0 ? read_now(&answer, &now, err) : r;
	if (r < 0)
		return r;
	*ret_now = now;
	now = (struct cell_policy_now){0};
	return 0;
}

/* ---- replacing ---- */

/* The number of unchanged rules at the beginning of the first layer, and then at the end. */
static void
compare(const struct policy *from, const struct policy *to, size_t *ret_front, size_t *ret_back)
{
	size_t a = policy_n_own(from), b = policy_n_own(to), least = a < b ? a : b, n = 0;

	while (n < least && strcmp(policy_rule_text(from, (int)n), policy_rule_text(to, (int)n)) == 0)
		n++;
	*ret_front = n;
	for (n = 0; n < least - *ret_front; n++)
		if (strcmp(policy_rule_text(from, (int)(a - 1 - n)),
		           policy_rule_text(to, (int)(b - 1 - n))) != 0)
			break;
	*ret_back = n;
}

/* The current counts, for a cell whose courier does not run; a running courier has newer ones. */
static int
carry_counts(const struct cell_policy_now *now, const struct policy *to, size_t front, size_t back,
             struct err *err)
{
	size_t n = policy_n_rules(to), after = policy_n_own(to), before = policy_n_own(now->policy);
	OWN(freep) uint64_t *counts = calloc(n + 1, sizeof(*counts));

	if (counts == NULL)
		return err_set(err, ENOMEM, "out of memory");
	memcpy(counts, now->counts, front * sizeof(*counts));
	if (n - after == now->n_counts - before)
		memcpy(counts + after - back, now->counts + before - back,
		       (back + n - after) * sizeof(*counts));
	return cell_policy_counts(counts, n, err);
}

int
cell_policy_carry_out(int runtime, const struct cell_entry *entry,
                      const struct cell_policy_plan *plan, const struct cell_policy_order *order,
                      char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = { .fds = { -1, -1, -1, -1 } };
	OWN(closep) int encoded_fd = -1, text_fd = -1, counts_fd = -1, socket = -1;
	OWN(buf_free) struct buf message, encoded;
	size_t front, back;
	const char *hash;
	int r;

	compare(plan->now.policy, plan->policy, &front, &back);
	cell_steer_put(&message, &order->who, &(struct steer_request){ .verb = order->verb,
		.text = { order->rule, plan->now.hash },
		.n = { order->cut ? CONTROL_POLICY_NOW : 0, front, back } });
	buf_init(&encoded, POLICY_ENCODED_MAX);
	policy_put(&encoded, plan->policy);
	if (buf_failed(&encoded))
		return err_set(err, E2BIG, "the policy is too large");
	encoded_fd = cell_policy_seal("policy", encoded.data, encoded.len, err);
	text_fd = encoded_fd < 0 ? -1 : cell_policy_seal("policy text", plan->text, plan->len, err);
	counts_fd = text_fd < 0 ? -1 : carry_counts(&plan->now, plan->policy, front, back, err);
	if (counts_fd < 0)
		return encoded_fd < 0 ? encoded_fd : text_fd < 0 ? text_fd : counts_fd;
	socket = cell_connect(runtime, entry, err);
	if (socket < 0)
		return socket;
	r = cell_steer(socket, &message, (int[]){ encoded_fd, text_fd, counts_fd }, 3, &answer, err);
	if (r < 0)
		return r;
	if (buf_get_str(&answer.body, &hash) < 0 || strlen(hash) > HASH_NAME)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	snprintf(ret_hash, HASH_NAME + 1, "%s", hash);
	return 0;
}
