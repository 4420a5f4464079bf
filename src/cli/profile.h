/* profile.h - agents' profiles: where they are found, who trusts them, and what was answered. */
#ifndef CLOISTER_CLI_PROFILE_H
#define CLOISTER_CLI_PROFILE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"
#include "canon/hash.h"
#include "profile/profile.h"

struct err;

#define PROFILE_CLI_FOLDER ".cloister/profiles"         /* in a project */

/* By precedence. */
enum profile_origin { PROFILE_OWN, PROFILE_PROJECT, PROFILE_BUILTIN };

struct profile_found {
	char *name;
	char *file;                     /* its path; of a built-in one, its name */
	enum profile_origin origin;
	char *text;
	size_t len;
	char hash[HASH_NAME + 1];       /* of the text */
	struct profile *profile;        /* NULL until it is read */
};
void profile_found_free(struct profile_found *f);       /* NULL is fine */
OWN_BY(profile_found_freep, struct profile_found *, profile_found_free)

/* ---- profile_find.c ---- */

/* "your own", "the project's" or "built in". */
const char *profile_cli_origin(enum profile_origin origin);
/* Find the profile NAME for a project in FOLDER, and read it.  -ENOENT, without a message, if there is none. */
int profile_cli_find(const char *name, const char *folder, struct profile_found **ret_found, struct err *err);
/* The same without parsing it. */
int profile_cli_find_text(const char *name, const char *folder, struct profile_found **ret_found, struct err *err);
/* Call EACH with the name of every profile, each once, in the order of their names.  A negative value
 * from EACH ends it and is returned. */
int profile_cli_each(const char *folder, int (*each)(void *arg, const char *name), void *arg, struct err *err);
/* The path of the operator's own profile NAME, whether it exists or not; the caller owns it. */
char *profile_cli_own_file(const char *name, struct err *err);

/* ---- profile_trust.c: a project's profile is used once a person has accepted its content ---- */

bool profile_cli_is_trusted(const struct profile_found *f);
int profile_cli_trust(const struct profile_found *f, struct err *err);

/* ---- profile_answers.c: what a person answered, in agents/NAME.yaml of the configuration ---- */

struct profile_answers {
	char shown[HASH_NAME + 1];      /* the profile that a person has seen; "" if none */
	char *secrets[PROFILE_CHOICES_MAX + 1];         /* names that were chosen; ends with NULL */
};
void profile_answers_free(struct profile_answers *a);   /* for OWN() too */
/* No file is no answers. */
int profile_answers_load(const char *name, struct profile_answers *ret_answers, struct err *err);
int profile_answers_save(const char *name, const struct profile_answers *a, struct err *err);
int profile_answers_forget(const char *name, struct err *err);

/* ---- profile_home.c: homes/PROFILE/PROJECT in the data folder ---- */

/* The name of the folder for the project in the folder WORKSPACE; the caller owns it. */
char *profile_home_project(const char *workspace);
/* Remove what the agent kept: for one project, or for all if PROJECT is NULL.  Returns how many projects it was. */
int profile_home_forget(const char *name, const char *project, struct err *err);

#endif
