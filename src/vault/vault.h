/* vault.h - secrets, sealed at rest.
 *
 * One file holds them all.  Their definitions are sealed together.  Each value is sealed once
 * more by itself, under a separate key, and bound to its name.  So listing secrets unseals no
 * value, and using one secret unseals no other.
 *
 *   $XDG_DATA_HOME/cloister/vault/    root: /var/lib/cloister/vault/
 *     vault          the file
 *     key            its key, unless `config` names another source
 *     config         "key: file", "key: passphrase" or "key: cmd:PROGRAM ARGS"
 *     lock           held while the file is changed
 * Only its owner may access any of it. */
#ifndef CLOISTER_VAULT_H
#define CLOISTER_VAULT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "vault/guard.h"
#include "vault/seal.h"
#include "vault/secret.h"
#include "vault/source.h"

struct err;
struct vault;                           /* opaque */

#define VAULT_SECRETS_MAX 1024
#define VAULT_FILE_MAX (16 * 1024 * 1024)
#define VAULT_PRINT_MAX (2 * SEAL_PRINT + 1)

enum vault_key { VAULT_KEY_FILE, VAULT_KEY_PASSPHRASE, VAULT_KEY_COMMAND, VAULT_KEYS };

/* Asks a person for the passphrase.  NEW: for a new one. */
typedef int vault_ask(void *arg, bool new, struct guard *ret_passphrase, struct err *err);

struct vault_entry {
	const struct secret *secret;
	uint64_t added, changed;        /* seconds since 1970 */
	char print[VAULT_PRINT_MAX];    /* of its value, in hex; "" if the vault does not hold it */
};

/* The path of its folder (CLOISTER_DATA_DIR, or as above), whether it exists or not; the caller
 * owns it.  NULL: there is no home folder. */
char *vault_path(struct err *err);
/* A descriptor of the folder.  Without MAKE, -ENOENT if it does not exist. */
int vault_folder(bool make, struct err *err);

/* Set the source of the key, once, before the vault has content: "file", "passphrase" or "cmd:...". */
int vault_init(int folder, const char *key, struct err *err);

/* Open the vault.  WRITE locks it until vault_free(), and makes a missing vault and its key.
 * Without WRITE, a missing vault is an empty one. */
int vault_open(int folder, bool write, vault_ask *ask, void *arg, struct vault **ret_vault,
               struct err *err);
void vault_free(struct vault *v);       /* NULL is fine */
OWN_BY(vault_freep, struct vault *, vault_free)

size_t vault_n(const struct vault *v);
const struct vault_entry *vault_at(const struct vault *v, size_t i);    /* in order of names */
/* NULL: there is none.  *ret_nearest, if not NULL, may be set to a similar name. */
const struct vault_entry *vault_find(const struct vault *v, const char *name,
                                     const char **ret_nearest);

/* -EEXIST: there is a secret of that name. */
int vault_check_new(const struct vault *v, const char *name, struct err *err);

/* Changes.  vault_save() writes them to the file, all or none. */

/* VALUES is NULL for a secret with a source of its own.  V takes over S. */
int vault_add(struct vault *v, struct secret *s, const struct secret_values *values, uint64_t now,
              struct err *err);
int vault_rotate(struct vault *v, const char *name, const struct secret_values *values,
                 uint64_t now, struct err *err);
int vault_remove(struct vault *v, const char *name, struct err *err);
int vault_save(struct vault *v, struct err *err);

/* The fields of a secret: unsealed, or fetched from its source. */
int vault_values(const struct vault *v, const char *name, uint64_t now,
                 struct secret_values *ret_values, struct err *err);

/* ---- the file: vault_file.c ---- */

/* The part before the sealed data.  It is validated first, and then the seal of the rest covers it. */
#define VAULT_HEADER 56
struct vault_header {
	enum vault_key key;
	unsigned cost;                  /* for a passphrase; otherwise 0 */
	unsigned char salt[SEAL_SALT];
	unsigned char check[16];        /* distinguishes a wrong key from a changed file */
};
void vault_header_put(const struct vault_header *h, unsigned char ret_bytes[VAULT_HEADER]);
int vault_header_get(const void *bytes, size_t len, struct vault_header *ret_header,
                     struct err *err);
#endif
