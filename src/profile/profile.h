/* profile.h - describes an agent: where its program is, what it needs, and which of its files matter.
 *
 * A profile is a YAML file, so that people can read, copy and change it (docs/agents.md).  The reader is
 * strict: an unknown key is an error with its position. */
#ifndef CLOISTER_PROFILE_H
#define CLOISTER_PROFILE_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

struct err;

#define PROFILE_FILE_MAX (64 * 1024)    /* bytes */
#define PROFILE_NAME_MAX 32
#define PROFILE_LIST_MAX 64             /* items of each list */
#define PROFILE_CHOICES_MAX 8           /* secrets, each with alternatives */
#define PROFILE_SERVERS_MAX 16          /* MCP servers */
#define PROFILE_PATH_MAX 256            /* bytes of a path in the home folder */
#define PROFILE_TEXT_MAX 4096           /* bytes of any other text */

enum profile_limit { PROFILE_MEMORY, PROFILE_CPUS, PROFILE_PIDS, PROFILE_TIME, PROFILE_DISK, PROFILE_IO,
                     PROFILE_LIMITS };
extern const char *const profile_limit_names[PROFILE_LIMITS];   /* as options of `run` are called */

/* How a person gets the program. */
enum profile_tool { PROFILE_NPM, PROFILE_UV, PROFILE_PIPX, PROFILE_URL, PROFILE_TOOLS };

/* How the agent is told of its MCP servers. */
enum profile_mcp_form { PROFILE_MCP_NONE, PROFILE_MCP_CLAUDE, PROFILE_MCP_CODEX, PROFILE_MCP_GEMINI,
                        PROFILE_MCP_OPENCODE, PROFILE_MCP_FORMS };

/* A server on the network, or a program that runs in the cell. */
struct profile_server {
	char *name;                     /* letters, digits, '-' and '_' */
	char *url;                      /* https://...; or NULL */
	char *allow;                    /* the rule that reaches it, as --allow; with URL */
	size_t line;                    /* of URL */
	char **command, **env;          /* without URL */
};

struct profile_mcp {
	enum profile_mcp_form form;
	struct profile_server servers[PROFILE_SERVERS_MAX];
	size_t n;
};

/* A login of the operator's own, in a file that the agent keeps on the host. */
struct profile_login {
	char *file;                     /* a path in the home folder; NULL: the profile has none */
	char *secret;                   /* the name of its entry in the catalogue of secrets */
	char *expires;                  /* as in a definition of a secret: when it is read again; or NULL */
	char **allow, **env;            /* needed besides those of the profile */
	size_t *allow_lines;            /* where each of ALLOW is in the file, from 1 */
};

/* Lists end with NULL, and are NULL if the profile does not have them. */
struct profile {
	char *about;                    /* one line for people, or NULL */
	char *program;                  /* a name, or an absolute path */
	enum profile_tool tool;         /* with PACKAGE */
	char *package;                  /* or NULL */
	char **args;                    /* before the user's own words */
	char **env;                     /* "NAME=VALUE"; a VALUE of "~" or "~/..." is in the cell's home */
	char **allow;                   /* as --allow */
	size_t *allow_lines;            /* where each of them is in the file, from 1 */
	/* As -s.  Of each choice, the first that the vault has is used. */
	char **secrets[PROFILE_CHOICES_MAX];
	size_t n_secrets;
	/* Paths in the home folder.  No path of KEEP is in another one, and none is in one of READ. */
	char **keep;                    /* folders that persist between runs */
	char **read;                    /* the operator's own files and folders */
	char *limits[PROFILE_LIMITS];   /* as on the command line, or NULL */
	bool nested;                    /* the agent makes namespaces */
	struct profile_mcp mcp;
	struct profile_login login;
	char *image;                    /* its programs, instead of the host's; or NULL */
};

/* Whether NAME can be a profile's: lower-case letters, digits, '-' and '_', beginning with a letter or a
 * digit. */
bool profile_name_ok(const char *name);

/* Parse TEXT, the contents of FILE.  The caller owns *ret_profile; on failure it is untouched. */
int profile_read(const char *file, const char *text, size_t len, struct profile **ret_profile, struct err *err);
void profile_free(struct profile *p);   /* NULL is fine */
OWN_BY(profile_freep, struct profile *, profile_free)

/* What a person types to get the program; the caller owns it.  NULL: the profile does not know, or out of
 * memory. */
char *profile_install_words(const struct profile *p);

/* ---- profile_files.c: the profiles that come with cloister ---- */

struct profile_file {
	const char *file;               /* "claude.yaml" */
	const char *text, *end;
};
extern const struct profile_file profile_files[];       /* by name; ends with a NULL file */
/* By the name of the profile, without ".yaml"; NULL: there is none. */
const struct profile_file *profile_find_file(const char *name);
#endif
