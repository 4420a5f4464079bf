/* vault_proc.h - shared by the files of cloister-vault. */
#ifndef CLOISTER_VAULT_PROC_H
#define CLOISTER_VAULT_PROC_H
#include "vault/bound.h"
#include "vault/guard.h"
#include "vault/lend.h"
#include "vault/placeholder.h"
#include "vault/source.h"
#include "vault/vault.h"

/* ---- vault_prompt.c ---- */

/* A vault_ask; ARG is a struct guard that keeps the answer, so that it is typed once. */
int prompt_passphrase(void *arg, bool new, struct guard *ret_passphrase, struct err *err);
/* Reads the fields of S: from standard input, or by prompts if that is a terminal. */
int prompt_values(const struct secret *s, uint64_t now, struct secret_values *ret_values,
                  struct err *err);

/* ---- vault_lend.c ---- */

/* Secrets of a service, for this one cell. */
struct lent;
/* What they are lent for, before anything else. */
int lent_begin(const struct lend_claim *claim, struct err *err);
/* Asks for NAMES; *RET_LENT is the process's own. */
int lent_fetch(const char *const *names, size_t n, const struct lent **ret_lent, struct err *err);
/* The definition of NAME; NULL: the service has none. */
const struct secret *lent_find(const struct lent *lent, const char *name);
/* The values that came last. */
int lent_values(const struct lent *lent, const char *name, struct secret_values *ret_values, struct err *err);
void lent_forget(void);                 /* the values; it can be asked again */

struct vault_request;
/* VAULT_LEND */
int lend_all(const struct vault *v, const struct vault_request *q, uint64_t now, struct err *err);

/* ---- vault_keeper.c ---- */

/* A secret that expires. */
struct kept {
	struct secret *secret;          /* with the source of its value */
	bool lent;                      /* which is the service */
	struct secret_values values;
	uint64_t due;                   /* when it is next fetched: seconds since 1970 */
	unsigned failures;              /* consecutive */
};
struct keeper {
	struct kept at[BOUND_MAX];
	size_t n;
	bool asked;                     /* the courier needs new values */
};
/* If VALUES, from SOURCE or LENT, expire and can be fetched again, the keeper takes ownership of them; else
 * they are left alone. */
int keeper_add(struct keeper *k, const struct secret *source, bool lent, struct secret_values *values,
               uint64_t fetched, struct err *err);
void keeper_free(struct keeper *k);     /* for OWN() too */
/* Runs until the cell is over. */
int keeper_run(struct keeper *k, struct err *err);

/* ---- vault_bind.c ---- */

struct vault_binding;

/* A secret that was given to the cell. */
struct bound_one {
	const struct vault_binding *asked;
	const struct secret *secret;
	struct secret *narrowed;        /* SECRET, if this cell has its own copy; or NULL */
	struct placeholder fake;
};
/* NAME=VALUE for the cell's environment; NULL and "" are left out. */
int put_variable(const char *name, const char *value, struct err *err);

/* V: NULL without a vault: then values can only come from elsewhere, which is LENT unless that is NULL.  Expiring ones
 * are in KEEPER too, which the caller frees in any case. */
int bind_all(const struct vault *v, const struct lent *lent, const struct vault_request *q, uint64_t now,
             struct keeper *keeper, struct err *err);

/* ---- vault_files.c ---- */

int bind_files(const struct bound_one *all, size_t n, struct err *err);

/* ---- vault_ssh.c ---- */

bool ssh_is_scheme(const struct secret *s);
/* Whether VALUES contain a private key that S can use. */
int ssh_check(const struct secret *s, const struct secret_values *values, struct err *err);
/* The same for a cell: passes its key to the courier, and the keys of its hosts to both.  VARIABLE:
 * for the public key. */
int ssh_bind(const struct secret *s, const struct secret_values *values, const char *variable,
             struct err *err);

/* ---- vault_show.c ---- */

void show_list(const struct vault *v, bool json, uint64_t now);
void show_entry(const struct vault_entry *entry, bool json, uint64_t now);
#endif
