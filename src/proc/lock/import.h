/* import.h - servers of other clients' files, to be written into a policy. */
#ifndef CLOISTER_LOCK_IMPORT_H
#define CLOISTER_LOCK_IMPORT_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "policy/policy_tools.h"
#include "profile/program.h"

struct err;

#define IMPORT_FILE_MAX (16u << 20)     /* ~/.claude.json has histories, too */
#define IMPORT_VALUES_MAX 64            /* variables of a server */

struct imported_value {
	const char *variable, *value;   /* VALUE is NULL if nobody has it */
	bool is_secret;
	bool in_file;                   /* it stands in the file as it is */
};
struct imported {
	char name[POLICY_TOOLS_SERVER_MAX + 1];
	const char *command, *url;      /* one of them is NULL; borrowed */
	const json_t *args;             /* borrowed; NULL: none */
	char host[256];                 /* of the URL, with its port */
	char token[POLICY_TOOLS_SERVER_MAX + 8];        /* of the URL's login: a variable */
	struct imported_value values[IMPORT_VALUES_MAX];
	size_t n_values;
};
struct import {
	const char *file;
	json_t *root;                   /* owned */
	struct imported servers[POLICY_TOOLS_SERVERS_MAX];
	size_t n;
};
/* Those of all projects, and of the project in FOLDER. */
int import_read(const char *file, const char *folder, struct import *ret_import, struct err *err);
void import_free(struct import *import);        /* for OWN() too */
/* What a server's program needs in its cell. */
#define IMPORT_READS_MAX (PROGRAM_GRANTS_MAX + 1)
struct import_grants {
	struct program program;         /* without a path: it was not found, or the project's folder has it */
	char *reads[IMPORT_READS_MAX];  /* owned */
	size_t n_reads;
};
int import_grants_find(const struct imported *server, struct import_grants *ret_grants, struct err *err);
void import_grants_free(struct import_grants *g);       /* for OWN() too */
/* Whether WORD names something in the current folder. */
bool import_is_here(const char *word);
/* Whether the variable NAME with VALUE is probably a credential. */
bool import_is_credential(const char *name, const char *value);
#endif
