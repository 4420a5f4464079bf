/* main.c - cloister-vault: the one process that opens the vault.
 *
 * `cloister secret` becomes it, with its request in descriptor 3, and `cloister run` starts it.  If
 * a cell's secrets expire, it stays as long as the cell.  Nobody may look into it, and it leaves no
 * core dump. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "credential/shape.h"
#include "proc/vault/vault_proc.h"
#include "vault/placeholder.h"
#include "vault/vault_request.h"

static uint64_t
now(void)
{
	return (uint64_t)time(NULL);
}

static int
read_request(struct buf *b, struct vault_request *ret_request, struct err *err)
{
	unsigned char *at;
	ssize_t n;

	buf_init(b, VAULT_REQUEST_MAX);
	at = buf_add(b, VAULT_REQUEST_MAX);
	n = at != NULL ? pread(VAULT_REQUEST_FD, at, VAULT_REQUEST_MAX, 0) : -1;
	if (n < 0)
		return err_set(err, EBADMSG, "cloister-vault is started by cloister only");
	b->len = (size_t)n;
	close(VAULT_REQUEST_FD);
	return vault_request_get(b, ret_request, err);
}

/* A token that was pasted in the wrong place is reported now, not when it is refused. */
static void
note_shape(const struct secret *s, const struct secret_values *values)
{
	const struct guard *value = &values->field[SECRET_SECRET];
	const struct policy_list *shapes = &s->shapes[SECRET_SECRET];
	struct shape shape, exact;

	for (size_t i = 0; i < shapes->n; i++)
		if (shape_parse(shapes->at[i], &shape, NULL) < 0 || shape.kind != SHAPE_ITEMS ||
		    shape_fit(&shape, value->at, value->len, &exact))
			return;
	if (shapes->n > 0 && value->len > 0)
		fprintf(stderr, "cloister: this does not look like a credential of %s; it is kept all the same, and "
		        "its placeholder will look like this value\n", *s->like != '\0' ? s->like : s->name);
}

/* ---- the operator's timeline ---- */

/* Records an action on the secret S, or on the one called NAME; nothing of its value. */
static int
note(const char *type, const char *name, const struct secret *s, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "secret", .text = name },
		{ .name = "like", .text = s == NULL || *s->like == '\0' ? NULL : s->like },
		{ .name = "scheme", .text = s == NULL ? NULL : s->scheme->name },
		{ .name = "scope", .text = s == NULL ? NULL : secret_scope_text(s) },
	};
	int r = operator_note(type, members, ARRAY_LEN(members), err);

	return r < 0 ? err_wrap(err, "the change is made, but not recorded") : 0;
}

static int
note_lent(const struct vault_request *q, const char *name, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "secret", .text = name }, { .name = "dispatch", .text = q->claim.dispatch },
		{ .name = "worker", .text = q->claim.worker },
	};

	return operator_note("secret.lent", members, ARRAY_LEN(members), err);
}

/* Checks that it can be recorded before anything is done. */
static int
can_note(struct err *err)
{
	OWN(operator_close) struct operator op = {0};
	int r = operator_open(&op, err);

	return r < 0 ? r : operator_checkpoint(&op, err);
}

/* ---- verbs ---- */

/* Called before its value is typed. */
static int
check_new(int folder, const char *name, struct guard *kept, struct err *err)
{
	OWN(vault_freep) struct vault *v = NULL;
	int r = vault_open(folder, false, prompt_passphrase, kept, &v, err);

	return r < 0 ? r : vault_check_new(v, name, err);
}

/* Tries what `run` will do with it, to refuse here what would fail there. */
static int
check_usable(const struct secret *s, const struct secret_values *values, struct err *err)
{
	OWN(placeholder_free) struct placeholder fake = {0};

	return placeholder_mint(s, values, &fake, err);
}

static int
add(int folder, struct vault_request *q, struct err *err)
{
	OWN(secret_values_free) struct secret_values values = {0};
	OWN(guard_free) struct guard kept = {0};
	OWN(vault_freep) struct vault *v = NULL;
	bool has_value = *q->secret->from == '\0';
	int r = check_new(folder, q->secret->name, &kept, err);

	if (r == 0 && has_value)
		r = prompt_values(q->secret, now(), &values, err);
	if (r == 0 && ssh_is_scheme(q->secret))
		r = ssh_check(q->secret, has_value ? &values : NULL, err);
	else if (r == 0 && has_value)
		r = check_usable(q->secret, &values, err);
	/* Only now: nobody waits for the lock while somebody types. */
	r = r == 0 ? vault_open(folder, true, prompt_passphrase, &kept, &v, err) : r;
	r = r == 0 ? vault_add(v, q->secret, has_value ? &values : NULL, now(), err) : r;
	if (r < 0)
		return r;
	if (has_value)
		note_shape(q->secret, &values);
	q->secret = NULL;
	r = can_note(err);
	r = r == 0 ? vault_save(v, err) : r;
	r = r == 0 ? note("secret.added", q->name, vault_find(v, q->name, NULL)->secret, err) : r;
	if (r == 0)
		show_entry(vault_find(v, q->name, NULL), q->json, now());
	return r;
}

static int
rotate(int folder, const struct vault_request *q, struct err *err)
{
	OWN(secret_values_free) struct secret_values values = {0};
	OWN(guard_free) struct guard kept = {0};
	OWN(vault_freep) struct vault *v = NULL;
	const struct vault_entry *entry;
	int r = vault_open(folder, false, prompt_passphrase, &kept, &v, err);

	if (r < 0)
		return r;
	entry = vault_find(v, q->name, NULL);
	if (entry != NULL && *entry->secret->from == '\0')
		r = prompt_values(entry->secret, now(), &values, err);
	if (r == 0 && entry != NULL && ssh_is_scheme(entry->secret))
		r = ssh_check(entry->secret, &values, err);
	else if (r == 0 && entry != NULL && *entry->secret->from == '\0')
		r = check_usable(entry->secret, &values, err);
	if (r == 0 && entry != NULL)
		note_shape(entry->secret, &values);
	vault_free(TAKE(v));
	r = r == 0 ? vault_open(folder, true, prompt_passphrase, &kept, &v, err) : r;
	r = r == 0 ? vault_rotate(v, q->name, &values, now(), err) : r;
	r = r == 0 ? can_note(err) : r;
	r = r == 0 ? vault_save(v, err) : r;
	r = r == 0 ? note("secret.rotated", q->name, NULL, err) : r;
	if (r == 0)
		show_entry(vault_find(v, q->name, NULL), q->json, now());
	return r;
}

static int
remove_one(int folder, const struct vault_request *q, struct err *err)
{
	OWN(guard_free) struct guard kept = {0};
	OWN(vault_freep) struct vault *v = NULL;
	int r = vault_open(folder, true, prompt_passphrase, &kept, &v, err);

	r = r == 0 ? vault_remove(v, q->name, err) : r;
	r = r == 0 ? can_note(err) : r;
	r = r == 0 ? vault_save(v, err) : r;
	r = r == 0 ? note("secret.removed", q->name, NULL, err) : r;
	if (r == 0 && isatty(STDOUT_FILENO))
		printf("%s: removed\n", q->name);
	return r;
}

static int
no_such(const struct vault *v, const char *name, struct err *err)
{
	const char *nearest = NULL;

	if (v != NULL)
		vault_find(v, name, &nearest);
	return err_set(err, ENOENT, "there is no secret '%.64s'%s%s%s", name,
	               nearest != NULL ? ": did you mean '" : ": see `cloister secret list`",
	               nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

static int
look(int folder, const struct vault_request *q, struct err *err)
{
	OWN(guard_free) struct guard kept = {0};
	OWN(vault_freep) struct vault *v = NULL;
	const struct vault_entry *entry;
	int r = vault_open(folder, false, prompt_passphrase, &kept, &v, err);

	if (r < 0)
		return r;
	if (q->verb == VAULT_LIST) {
		show_list(v, q->json, now());
		return 0;
	}
	entry = vault_find(v, q->name, NULL);
	if (entry == NULL)
		return no_such(v, q->name, err);
	show_entry(entry, q->json, now());
	return 0;
}

static int
bind_to_cell(int folder, const struct vault_request *q, struct keeper *keeper, struct err *err)
{
	OWN(guard_free) struct guard kept = {0};
	OWN(vault_freep) struct vault *v = NULL;
	int r = folder < 0 ? 0 : vault_open(folder, false, prompt_passphrase, &kept, &v, err);

	return r < 0 ? r : bind_all(v, NULL, q, now(), keeper, err);
}

/* This machine's vault stays closed. */
static int
bind_lent(const struct vault_request *q, struct keeper *keeper, struct err *err)
{
	const char *names[VAULT_BIND_MAX];
	const struct lent *lent;
	int r = lent_begin(&q->claim, err);

	for (size_t i = 0; i < q->n_bind; i++)
		names[i] = q->bind[i].name;
	r = r == 0 ? lent_fetch(names, q->n_bind, &lent, err) : r;
	r = r == 0 ? bind_all(NULL, lent, q, now(), keeper, err) : r;
	lent_forget();
	return r;
}

static int
lend(int folder, const struct vault_request *q, struct err *err)
{
	OWN(guard_free) struct guard kept = {0};
	OWN(vault_freep) struct vault *v = NULL;
	int r = folder < 0 ? 0 : vault_open(folder, false, prompt_passphrase, &kept, &v, err);

	r = r == 0 ? can_note(err) : r;
	for (size_t i = 0; r == 0 && i < q->n_bind; i++)
		if (v != NULL && vault_find(v, q->bind[i].name, NULL) != NULL)
			r = note_lent(q, q->bind[i].name, err);
	return r == 0 ? lend_all(v, q, now(), err) : r;
}

static int
serve(struct vault_request *q, struct keeper *keeper, struct err *err)
{
	OWN(closep) int folder = -1;
	bool makes = q->verb == VAULT_ADD || q->verb == VAULT_INIT;

	if ((q->verb == VAULT_BIND || q->verb == VAULT_VALUE) && q->lent)
		return bind_lent(q, keeper, err);
	folder = vault_folder(makes, err);
	/* No vault counts as an empty one. */
	if (folder == -ENOENT && q->verb == VAULT_LIST) {
		if (q->json)
			puts("[]");
		return 0;
	}
	if (folder == -ENOENT && (q->verb == VAULT_BIND || q->verb == VAULT_VALUE))
		return bind_to_cell(-1, q, keeper, err);
	if (folder == -ENOENT && q->verb == VAULT_LEND)
		return lend(-1, q, err);
	if (folder == -ENOENT && !makes)
		return no_such(NULL, q->name, err);
	if (folder < 0)
		return folder;
	switch (q->verb) {
	case VAULT_INIT:
		return vault_init(folder, q->key, err);
	case VAULT_ADD:
		return add(folder, q, err);
	case VAULT_ROTATE:
		return rotate(folder, q, err);
	case VAULT_REMOVE:
		return remove_one(folder, q, err);
	case VAULT_BIND:
	case VAULT_VALUE:
		return bind_to_cell(folder, q, keeper, err);
	case VAULT_LEND:
		return lend(folder, q, err);
	default:
		return look(folder, q, err);
	}
}

int
main(void)
{
	OWN(buf_free) struct buf b = {0};
	OWN(keeper_free) struct keeper keeper = {0};
	struct vault_request q = {0};
	struct err err = {0};
	int r = guard_process(&err);

	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	r = r == 0 ? read_request(&b, &q, &err) : r;
	r = r == 0 ? serve(&q, &keeper, &err) : r;
	if (q.verb == VAULT_VALUE)
		keeper_free(&keeper);
	vault_request_free(&q);
	if (r == 0 && keeper.n > 0)
		r = keeper_run(&keeper, &err);
	if (r < 0)
		return tell_error(&err);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "cloister: cannot write all of the output\n");
		return TELL_FAILED;
	}
	return 0;
}
