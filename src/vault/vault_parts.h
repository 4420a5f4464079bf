/* vault_parts.h - declarations shared by the files of the vault, for them only. */
#ifndef CLOISTER_VAULT_PARTS_H
#define CLOISTER_VAULT_PARTS_H
#include "vault/vault.h"

#define VAULT_FILE "vault"
#define VAULT_KEYFILE "key"
#define VAULT_CONFIG "config"
#define VAULT_LOCK "lock"
#define VAULT_NEW "vault.new"

struct vault_item {
	struct vault_entry entry;
	struct secret *secret;          /* owned by the entry */
	/* nonce, sealed value, tag; NULL if there is none */
	unsigned char *sealed[SECRET_FIELDS];
	size_t n_sealed[SECRET_FIELDS];
};

struct vault {
	int folder, lock;               /* FOLDER is borrowed; LOCK is -1 if opened for reading only */
	struct vault_header header;
	struct guard index, values, print;      /* keys */
	struct vault_item *items;       /* in order of names */
	size_t n;
};

/* ---- vault_file.c ---- */

/* Read a file of our own, refused if others could read or write it.  -ENOENT without a message: it
 * does not exist. */
int vault_read_own(int folder, const char *name, size_t max, struct guard *ret_text,
                   struct err *err);
/* Replace the file, completely or not at all, and sync it to disk. */
int vault_write_own(int folder, const char *name, const void *data, size_t len, struct err *err);

void vault_item_free(struct vault_item *item);
/* Encode the items as they are sealed together, and decode them. */
void vault_items_put(struct buf *b, const struct vault_item *items, size_t n);
int vault_items_get(struct buf *b, struct vault_item **ret_items, size_t *ret_n, struct err *err);

/* ---- vault_key.c ---- */

/* Set V's keys by its header.  NEW: the header is new, and what it needs is made. */
int vault_unlock(struct vault *v, bool new, vault_ask *ask, void *arg, struct err *err);
#endif
