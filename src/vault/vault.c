/* vault.c - opens, changes and saves a vault. */
#include "vault/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "vault/vault_parts.h"

/* ---- opening ---- */

static int
take_lock(struct vault *v, struct err *err)
{
	v->lock = openat(v->folder, VAULT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (v->lock < 0)
		return err_errno(err, "cannot lock the vault");
	while (flock(v->lock, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_errno(err, "cannot lock the vault");
	return 0;
}

static int
open_sealed(struct vault *v, const struct guard *file, struct err *err)
{
	OWN(guard_free) struct guard plain = {0};
	struct buf b;
	int r = seal_open(&v->index, file->at, VAULT_HEADER, file->at + VAULT_HEADER,
	                  file->len - VAULT_HEADER, &plain, err);

	if (r < 0)
		return err_wrap(err, "the vault");
	buf_init_borrowed(&b, plain.at, plain.len);
	return vault_items_get(&b, &v->items, &v->n, err);
}

int
vault_open(int folder, bool write, vault_ask *ask, void *arg, struct vault **ret_vault,
           struct err *err)
{
	OWN(vault_freep) struct vault *v = calloc(1, sizeof(*v));
	OWN(guard_free) struct guard file = {0};
	int r;

	if (v == NULL)
		return err_set(err, ENOMEM, "out of memory");
	v->folder = folder;
	r = write ? take_lock(v, err) : 0;
	if (r < 0)
		return r;
	r = vault_read_own(folder, VAULT_FILE, VAULT_FILE_MAX, &file, err);
	if (r == -ENOENT) {
		r = write ? vault_unlock(v, true, ask, arg, err) : 0;
	} else if (r == 0) {
		r = vault_header_get(file.at, file.len, &v->header, err);
		r = r == 0 ? vault_unlock(v, false, ask, arg, err) : r;
		r = r == 0 ? open_sealed(v, &file, err) : r;
	}
	if (r == 0)
		*ret_vault = TAKE(v);
	return r;
}

void
vault_free(struct vault *v)
{
	if (v == NULL)
		return;
	for (size_t i = 0; i < v->n; i++)
		vault_item_free(&v->items[i]);
	free(v->items);
	guard_free(&v->index);
	guard_free(&v->values);
	guard_free(&v->print);
	close_fd(&v->lock);
	free(v);
}

/* ---- finding ---- */

size_t
vault_n(const struct vault *v)
{
	return v->n;
}

const struct vault_entry *
vault_at(const struct vault *v, size_t i)
{
	return &v->items[i].entry;
}

static struct vault_item *
find_item(const struct vault *v, const char *name)
{
	for (size_t i = 0; i < v->n; i++)
		if (strcmp(v->items[i].secret->name, name) == 0)
			return &v->items[i];
	return NULL;
}

static const char *
nearest_name(const struct vault *v, const char *name)
{
	OWN(freep) const char **names = calloc(v->n + 1, sizeof(*names));

	for (size_t i = 0; names != NULL && i < v->n; i++)
		names[i] = v->items[i].secret->name;
	return names != NULL ? text_nearest(name, names) : NULL;
}

const struct vault_entry *
vault_find(const struct vault *v, const char *name, const char **ret_nearest)
{
	const struct vault_item *item = find_item(v, name);

	if (ret_nearest != NULL)
		*ret_nearest = item == NULL ? nearest_name(v, name) : NULL;
	return item != NULL ? &item->entry : NULL;
}

static int
no_such(const struct vault *v, const char *name, struct err *err)
{
	const char *nearest = nearest_name(v, name);

	return err_set(err, ENOENT, "there is no secret '%.64s'%s%s%s", name,
	               nearest != NULL ? ": did you mean '" : ": see `cloister secret list`",
	               nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

/* ---- values ---- */

/* A value is sealed with this text: it opens under no other name, field or version. */
static size_t
known_of(const char *name, size_t field, char ret_known[SECRET_NAME_MAX + 32])
{
	int n = snprintf(ret_known, SECRET_NAME_MAX + 32, "cloister secret 1 %s %s",
	                 secret_field_names[field], name);

	return (size_t)n;
}

static int
seal_field(const struct vault *v, struct vault_item *item, size_t field, const struct guard *value,
           struct err *err)
{
	OWN(buf_free) struct buf b = {0};
	char known[SECRET_NAME_MAX + 32];
	size_t n = known_of(item->secret->name, field, known);
	int r;

	free(item->sealed[field]);
	item->sealed[field] = NULL;
	item->n_sealed[field] = 0;
	if (value->len == 0)
		return 0;
	buf_init(&b, SECRET_VALUE_MAX + SEAL_EXTRA);
	r = seal_close(&v->values, known, n, value->at, value->len, &b, err);
	if (r < 0)
		return r;
	item->sealed[field] = TAKE(b.data);
	item->n_sealed[field] = b.len;
	return 0;
}

/* The fingerprint of the secret, over all of its fields. */
static int
print_of(const struct vault *v, const struct secret_values *values, char ret_print[VAULT_PRINT_MAX],
         struct err *err)
{
	unsigned char prints[SECRET_FIELDS][SEAL_PRINT] = {{0}}, print[SEAL_PRINT];
	int r = 0;

	for (size_t f = 0; r == 0 && f < SECRET_FIELDS; f++)
		if (values->field[f].len > 0)
			r = seal_print(&v->print, values->field[f].at, values->field[f].len, prints[f], err);
	r = r == 0 ? seal_print(&v->print, prints, sizeof(prints), print, err) : r;
	if (r == 0)
		codec_hex(print, SEAL_PRINT, ret_print);
	return r;
}

static int
set_values(const struct vault *v, struct vault_item *item, const struct secret_values *values,
           struct err *err)
{
	int r = print_of(v, values, item->entry.print, err);

	for (size_t f = 0; r == 0 && f < SECRET_FIELDS; f++)
		r = seal_field(v, item, f, &values->field[f], err);
	return r;
}

int
vault_values(const struct vault *v, const char *name, uint64_t now,
             struct secret_values *ret_values, struct err *err)
{
	OWN(secret_values_free) struct secret_values values = {0};
	OWN(guard_free) struct guard text = {0};
	const struct vault_item *item = find_item(v, name);
	char known[SECRET_NAME_MAX + 32];
	int r = 0;

	if (item == NULL)
		return no_such(v, name, err);
	if (*item->secret->from != '\0') {
		r = source_fetch(item->secret->from, &text, err);
		return r == 0 ? source_fields(item->secret, &text, now, ret_values, err) :
		                err_wrap(err, "secret '%s'", name);
	}
	for (size_t f = 0; r == 0 && f < SECRET_FIELDS; f++)
		if (item->n_sealed[f] > 0)
			r = seal_open(&v->values, known, known_of(name, f, known), item->sealed[f],
			              item->n_sealed[f], &values.field[f], err);
	if (r < 0)
		return err_wrap(err, "secret '%s'", name);
	*ret_values = values;
	values = (struct secret_values){0};
	return 0;
}

/* ---- changing ---- */

int
vault_check_new(const struct vault *v, const char *name, struct err *err)
{
	if (find_item(v, name) == NULL)
		return 0;
	return err_set(err, EEXIST, "there is a secret '%s' already: `cloister secret rotate` gives it "
	               "another value, `remove` takes it away", name);
}

int
vault_add(struct vault *v, struct secret *s, const struct secret_values *values, uint64_t now,
          struct err *err)
{
	struct vault_item item = { .entry = { .secret = s, .added = now, .changed = now }, .secret = s };
	struct vault_item *more;
	size_t at = 0;
	int r = vault_check_new(v, s->name, err);

	if (r < 0)
		return r;
	if (v->n == VAULT_SECRETS_MAX)
		return err_set(err, E2BIG, "a vault holds at most %d secrets", VAULT_SECRETS_MAX);
	more = realloc(v->items, (v->n + 1) * sizeof(*more));
	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	v->items = more;
	r = values != NULL ? set_values(v, &item, values, err) : 0;
	if (r < 0) {
		item.secret = NULL;
		vault_item_free(&item);
		return r;
	}
	while (at < v->n && strcmp(v->items[at].secret->name, s->name) < 0)
		at++;
	memmove(v->items + at + 1, v->items + at, (v->n - at) * sizeof(*v->items));
	v->items[at] = item;
	v->n++;
	return 0;
}

int
vault_rotate(struct vault *v, const char *name, const struct secret_values *values, uint64_t now,
             struct err *err)
{
	struct vault_item *item = find_item(v, name);
	int r;

	if (item == NULL)
		return no_such(v, name, err);
	if (*item->secret->from != '\0')
		return err_set(err, EINVAL, "the value of '%s' comes from '%.64s': change it there", name,
		               item->secret->from);
	r = set_values(v, item, values, err);
	if (r == 0)
		item->entry.changed = now;
	return r;
}

int
vault_remove(struct vault *v, const char *name, struct err *err)
{
	struct vault_item *item = find_item(v, name);

	if (item == NULL)
		return no_such(v, name, err);
	vault_item_free(item);
	memmove(item, item + 1, (size_t)(v->items + v->n - item - 1) * sizeof(*item));
	v->n--;
	return 0;
}

int
vault_save(struct vault *v, struct err *err)
{
	OWN(buf_free) struct buf plain = BUF_SECRET(VAULT_FILE_MAX - VAULT_HEADER - SEAL_EXTRA),
	                         file = BUF(VAULT_FILE_MAX);
	unsigned char header[VAULT_HEADER];
	int r;

	vault_items_put(&plain, v->items, v->n);
	if (buf_failed(&plain))
		return err_set(err, E2BIG, "the vault is full: it holds %d MiB", VAULT_FILE_MAX >> 20);
	vault_header_put(&v->header, header);
	buf_put(&file, header, sizeof(header));
	r = seal_close(&v->index, header, sizeof(header), plain.data, plain.len, &file, err);
	return r == 0 ? vault_write_own(v->folder, VAULT_FILE, file.data, file.len, err) : r;
}
