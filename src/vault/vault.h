/* vault.h - secrets, sealed at rest.
 *
 * One file holds them all.  Their definitions are sealed together, each value once more by
 * itself, under a key of its own and bound to its name: to list secrets no value is
 * unsealed, and to use one, no other.
 *
 *   $XDG_DATA_HOME/cloister/vault/    root: /var/lib/cloister/vault/
 *     vault          the file
 *     key            its key, unless it is another: see `config`
 *     config         "key: file", "key: passphrase" or "key: cmd:PROGRAM ARGS"
 *     lock           held while the file is changed
 * Nobody else may so much as look at any of it. */
#ifndef CLOISTER_VAULT_H
#define CLOISTER_VAULT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* Asks somebody for the passphrase; NEW: for one that was not there before. */
typedef int vault_ask(void *arg, bool new, struct guard *ret_passphrase, struct err *err);

struct vault_entry {
	const struct secret *secret;
	uint64_t added, changed;        /* seconds since 1970 */
	char print[VAULT_PRINT_MAX];    /* of its value, in hex; "" if it comes from elsewhere */
};

/* Its folder (CLOISTER_DATA_DIR, or as above), whether it is there or not; the caller owns
 * it.  NULL: there is no home to keep it in. */
char *vault_path(struct err *err);
/* The same: a descriptor.  Without MAKE -ENOENT where
 * there is none. */
int vault_folder(bool make, struct err *err);

/* Say once, before anything is in it, where the key is to come from: "file", "passphrase"
 * or "cmd:...". */
int vault_init(int folder, const char *key, struct err *err);

/* Open it.  To WRITE, nobody else may do so until vault_free(), and a vault that is not
 * there is made, with its key; otherwise it is an empty one. */
int vault_open(int folder, bool write, vault_ask *ask, void *arg, struct vault **ret_vault,
               struct err *err);
void vault_free(struct vault *v);       /* NULL is fine */
void vault_freep(struct vault **v);     /* for OWN() */

size_t vault_n(const struct vault *v);
const struct vault_entry *vault_at(const struct vault *v, size_t i);    /* by name */
/* NULL if there is none; *ret_nearest, if it is not NULL, may be a name that is meant. */
const struct vault_entry *vault_find(const struct vault *v, const char *name,
                                     const char **ret_nearest);

/* -EEXIST if there is a secret of that name. */
int vault_check_new(const struct vault *v, const char *name, struct err *err);

/* Changes.  They are in the file after vault_save(), all of them or none. */

/* VALUES: NULL for a secret that says where its value comes from.  V owns S afterwards. */
int vault_add(struct vault *v, struct secret *s, const struct secret_values *values, uint64_t now,
              struct err *err);
int vault_rotate(struct vault *v, const char *name, const struct secret_values *values,
                 uint64_t now, struct err *err);
int vault_remove(struct vault *v, const char *name, struct err *err);
int vault_save(struct vault *v, struct err *err);

/* The fields of a secret: unsealed, or fetched from where it says. */
int vault_values(const struct vault *v, const char *name, uint64_t now,
                 struct secret_values *ret_values, struct err *err);

/* ---- the file: vault_file.c ---- */

/* What stands before what is sealed.  It is checked before it is believed, and then it is
 * what the rest was sealed with. */
#define VAULT_HEADER 56
struct vault_header {
	enum vault_key key;
	unsigned cost;                  /* of a passphrase; otherwise 0 */
	unsigned char salt[SEAL_SALT];
	unsigned char check[16];        /* tells a wrong key from a changed file */
};
void vault_header_put(const struct vault_header *h, unsigned char ret_bytes[VAULT_HEADER]);
int vault_header_get(const void *bytes, size_t len, struct vault_header *ret_header,
                     struct err *err);
#endif
