/* project.h - looks at a project's files, and writes the policy that its build, tests and forge need.
 *
 * An agent may have written these files.  Nothing of them is executed or followed: they are read as bytes, up
 * to a limit, and only values of a narrow alphabet are used.  A value that chooses a host on its own, other
 * than one of the known forges, becomes an `ask` rule, never an `allow`. */
#ifndef CLOISTER_PROJECT_H
#define CLOISTER_PROJECT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define PROJECT_FILE_MAX (1024 * 1024)  /* bytes of each file that is read */
#define PROJECT_NEEDS_MAX 64
#define PROJECT_NOTES_MAX 32
#define PROJECT_HOST_MAX 253
#define PROJECT_PATH_MAX 200
#define PROJECT_FROM_MAX 80

enum project_kind {
	PROJECT_PRESET,                 /* packages: PRESET */
	PROJECT_REMOTE,                 /* the project's own repository: HOST and PATH */
	PROJECT_FETCH,                  /* a repository that it depends on */
	PROJECT_READ,                   /* a registry of packages: reads below PATH */
	PROJECT_MCP,                    /* an MCP server: PATH */
};

/* Where a URL leads: a host in lower case, and a path without slashes at its ends. */
struct project_place {
	char host[PROJECT_HOST_MAX + 1];
	uint16_t port;                  /* 0: the default */
	char path[PROJECT_PATH_MAX + 1];
	bool is_ssh;
};

struct project_need {
	enum project_kind kind;
	const char *preset;
	struct project_place place;
	bool is_known;                  /* a forge that cloister knows */
	char from[PROJECT_FROM_MAX];    /* why: "package.json"; "remote origin in .git/config" */
};

struct project {
	struct project_need needs[PROJECT_NEEDS_MAX];
	size_t n;
	bool is_full;                   /* there were more */
	const char *notes[PROJECT_NOTES_MAX];   /* sentences about what gets no rule */
	size_t n_notes;
	const char *agent;              /* the profile that its files suggest, or NULL */
	const char *agent_file;         /* the file */
};

/* Look at the project in the folder FD. */
void project_look(int folder, struct project *ret_project);

/* Append the policy, whose agent is AGENT, and its test cases. */
void project_put_policy(struct buf *b, const struct project *p, const char *agent);
void project_put_cases(struct buf *b, const struct project *p);
/* What the need becomes, for people: "npm packages", "fetch from github.com/acme/site". */
void project_put_need(struct buf *b, const struct project_need *need);

/* ---- parts, for tests: each adds the needs of one file's text ---- */

/* False if TEXT is no URL of a repository or server that a rule can name. */
bool project_url(const char *text, size_t len, struct project_place *ret_place);
void project_read_package(struct project *p, const char *text, size_t len);     /* package.json */
void project_read_mcp(struct project *p, const char *text, size_t len);         /* .mcp.json */
void project_read_git(struct project *p, const char *text, size_t len);         /* .git/config */
/* .gitmodules.  It comes with a clone, so it names no repository that may be pushed to. */
void project_read_modules(struct project *p, const char *text, size_t len);
/* FILE is TOML, or lines of KEY=VALUE: the URLs behind `git`, `url`, `registry` and `index`. */
void project_read_lines(struct project *p, const char *file, const char *text, size_t len);

/* Add a need, unless P has it; NOTE is a constant. */
void project_add_preset(struct project *p, const char *preset, const char *from);
void project_add_place(struct project *p, enum project_kind kind, const struct project_place *place,
                       const char *from);
void project_note(struct project *p, const char *note);
#endif
