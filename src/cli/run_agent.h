/* run_agent.h - the parts of `cloister run NAME`: a cell by an agent's profile. */
#ifndef CLOISTER_CLI_RUN_AGENT_H
#define CLOISTER_CLI_RUN_AGENT_H
#include "cli/profile.h"
#include "profile/program.h"

struct run;

#define RUN_AGENT_WORDS_MAX 512

struct run_agent {
	struct profile_found *found;
	struct program program;         /* empty with an image */
	const char *folder;             /* the project's, absolute; borrowed */
	char *here;                     /* FOLDER, if nobody named a workspace; or NULL */
	/* For each path of the profile's `read`: the operator's own file, or NULL if it is not given; and why
	 * not, or NULL if there is no such file. */
	char *read[PROFILE_LIST_MAX];
	const char *withheld[PROFILE_LIST_MAX];
	struct profile_answers answers;
	const char *secrets[PROFILE_CHOICES_MAX];       /* the chosen ones, as -s takes them; borrowed */
	size_t n_secrets;
	char *login;                    /* the operator's file with a login, if that is used; or NULL */
	char *words[RUN_AGENT_WORDS_MAX];       /* besides those of the profile, behind them */
	size_t n_words;
};
void run_agent_free(struct run_agent *a);       /* NULL is fine */
OWN_BY(run_agent_freep, struct run_agent *, run_agent_free)

/* run_agent_home.c: finds the operator's own files that are given, and grants them with what the agent keeps. */
int run_agent_find_reads(struct run_agent *a, struct err *err);
int run_agent_grant_home(struct run *run, const struct run_agent *a, struct err *err);
/* Grants HOST at CELL, unless the cell has that already. */
int run_agent_grant(struct run *run, const char *host, const char *cell, bool write, struct err *err);

/* run_agent_login.c: uses a login of the operator's own, if there is one.  The first finds it, and returns whether
 * it did.  The second gives the cell a placeholder of it. */
bool run_agent_find_login(struct run_agent *a);
int run_agent_use_login(struct run *run, const struct run_agent *a, struct err *err);
/* run_agent_home.c: opens the folder at PATH beneath DIR, without following links; makes what is missing,
 * and replaces what an agent has put in its way. */
int run_agent_make_folder(int dir, const char *path, struct err *err);
/* The folder with all that the agent keeps for the project.  The caller owns *ret_place, its path. */
int run_agent_open_kept(const struct run_agent *a, char **ret_place, struct err *err);

/* run_agent_mcp.c: adds the rules for the MCP servers of the profile; see also run.h. */
int run_agent_add_mcp(struct run *run, const struct run_agent *a, struct err *err);

/* run_project.c: refuses a policy of the project that no person has accepted, and asks on a terminal. */
int run_accept_policy(struct run *run, const struct run_agent *a, struct err *err);

/* run_agent_ask.c: shows a person what the agent gets, if that is new, and asks what it must. */
#define RUN_ANSWER_MAX 64
bool run_agent_can_ask(const struct run *run);
/* A line of the terminal, without its end; false at the end of the input. */
bool run_agent_read_answer(char ret_answer[RUN_ANSWER_MAX]);
int run_agent_ask(const struct run *run, struct run_agent *a, struct err *err);
#endif
