/* login.h - finds the operator's login for a registry, in the files that other tools write: auth.json and
 * config.json, and the credential helpers that these name.
 *
 * A file or a helper that an agent could have written is refused. */
#ifndef CLOISTER_IMAGE_LOGIN_H
#define CLOISTER_IMAGE_LOGIN_H

struct auth;
struct err;

/* Find the login for REPOSITORY of REGISTRY, and run a credential helper if that has it.  No login is no error: then
 * *ret_auth is untouched. */
int login_find(const char *registry, const char *repository, struct auth *ret_auth, struct err *err);
#endif
