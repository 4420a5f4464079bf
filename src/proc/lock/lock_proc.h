/* lock_proc.h - shared by the files of cloister-lock.
 *
 * Four kinds of processes run this program.  The keeper is what `cloister tools` became: it has the operator's rights,
 * starts cells and writes files.  The others are locked down before their first untrusted byte: the worker, which speaks
 * to servers and reads records; the upstream, which stands in for the services that servers use; and the login, which
 * speaks to authorization servers. */
#ifndef CLOISTER_LOCK_PROC_H
#define CLOISTER_LOCK_PROC_H
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/args.h"
#include "base/buf.h"
#include "base/err.h"
#include "cell/cell_spec.h"
#include "policy/policy.h"
#include "policy/policy_tools.h"
#include "tools/check.h"
#include "tools/lock.h"

#define WORKER_NAME "cloister-lock-worker"
#define UPSTREAM_NAME "cloister-lock-upstream"
#define LOGIN_NAME "cloister-lock-login"

#define LOCK_START_MS 60000             /* for a server to start, and to list its tools */
#define LOCK_CALLS_MAX 10000            /* of one run */

int lock_worker_main(void);
int lock_upstream_main(void);
int lock_login_main(void);

/* Starts this program again as NAME, with FDS as its descriptors from 3 on. */
pid_t part_spawn(const char *name, const int *fds, size_t n_fds, struct err *err);

/* ---- keeper.c ---- */

struct keeper {
	const struct args *args;
	const char *file;               /* of the policy */
	char *folder;                   /* its folder, absolute; owned */
	char *lock_path;                /* owned */
	bool names_lock;                /* the policy does */
	const char *home;
	struct policy *policy;          /* the servers; owned */
	const struct policy_tools *tools;
	char *lock_text;                /* "" if there is no lock; owned */
	size_t lock_len;
	struct lock lock;
	int channel;                    /* to the worker; -1: not started */
	pid_t worker;
	char temporary[PATH_MAX];       /* a folder of ours; "": none */
};
/* Reads the servers and the lock, and starts the worker. */
int keeper_open(struct keeper *k, const struct args *args, struct err *err);
void keeper_close(struct keeper *k);    /* for OWN() too */
/* Whether the words name SERVER, or none. */
bool keeper_wants(const struct keeper *k, const char *server);
/* All words are servers. */
int keeper_check_words(const struct keeper *k, struct err *err);
/* Replaces FILE in one step. */
int keeper_write(const char *path, const void *data, size_t len, struct err *err);

/* Whether the server's own policy has KEY; also if it cannot be read. */
bool keeper_policy_has(const struct policy_tools_server *server, const char *key);

/* One question to the worker; borrows FDS.  RET_TEXT (may be NULL) gets the chunks. */
int keeper_ask(struct keeper *k, const struct buf *question, const int *fds, size_t n_fds, int64_t timeout_ms,
               struct buf *ret_text, uint64_t *ret_number, struct err *err);
/* A pipe's reading end, which has TEXT, or a file that has it. */
int keeper_text_fd(const char *text, size_t len, struct err *err);

/* ---- ask.c ---- */

/* Asks at the terminal.  False: there is none, or the input has ended. */
bool ask_line(const char *question, char *ret_line, size_t size);
/* 1: yes.  0: no.  -EPERM: there is no terminal, and ERR is OTHERWISE. */
int ask_yes(const char *question, const char *otherwise, struct err *err);

/* ---- command_login.c ---- */

bool token_is_in_vault(const char *name);

/* ---- keeper_cell.c: a server in a cell ---- */

struct cell_wish {
	const struct policy_tools_server *server;
	const char *policy;             /* of the cell, as YAML; it is stored in the temporary folder */
	const char *ca;                 /* a file, or NULL */
	const struct policy_list *writable;     /* besides those of the server: shown as overlays; may be NULL */
	bool observes;                  /* grants are overlays, so that nothing of the operator's changes */
	bool allows;                    /* what --allow names, too */
	bool has_secrets;               /* the server's policy has them: no variables in their place */
};
struct server_cell {
	char id[CELL_ID_LEN + 1];
	pid_t pid;
	int fds[3];                     /* its output, its input, its standard error; 0: closed */
};
int cell_begin(struct keeper *k, const struct cell_wish *wish, struct server_cell *ret_cell, struct err *err);
/* Its input is closed; what does not end then is killed. */
void cell_finish(struct keeper *k, struct server_cell *cell);
/* Removes what is left of it. */
void cell_forget(const struct server_cell *cell);
/* Runs `cloister WORDS...`; its output goes to the pipe *ret_out, unless that is NULL. */
pid_t cell_run_cloister(char *const *argv, int *ret_out, struct err *err);

/* Lets the worker read the record and the changes of a cell that has ended. */
int keeper_observe(struct keeper *k, const struct server_cell *cell, bool judges, struct err *err);

/* ---- keeper_program.c ---- */

struct server_program {
	char path[PATH_MAX], sha256[HASH_HEX + 1], package[256];
	struct listed_file files[LOCK_FILES_MAX];       /* borrowed from the server's command */
	size_t n_files;
};
/* What of this machine the server is: its program, the SHA-256 of it or of its script, its npm package; and the files that
 * its command names, if its cell has them and it cannot write them. */
void keeper_find_program(const struct keeper *k, const struct policy_tools_server *server, struct server_program *ret_program);
/* Adds to ERR which path of the command its cell does not have. */
void server_program_explain(const struct keeper *k, const struct policy_tools_server *server, struct err *err);

/* ---- commands ---- */

int command_import(const struct args *args, struct err *err);
int command_list(const struct args *args, struct err *err);
int command_lock(const struct args *args, struct err *err);
int command_check(const struct args *args, struct err *err);
int command_learn(const struct args *args, struct err *err);
int command_login(const struct args *args, struct err *err);
int command_token(const struct args *args, struct err *err);

/* Starts each wanted server, and has the worker list its tools.  Servers that fail become findings, or with FAILS end
 * it.  CHANGES may be NULL. */
int servers_list(struct keeper *k, struct check_findings *f, bool fails, struct buf *changes, struct err *err);
/* Calls every locked tool of the wanted servers. */
int servers_verify(struct keeper *k, struct check_findings *f, struct err *err);
int keeper_findings(struct keeper *k, struct check_findings *f, struct err *err);

/* ---- report.c ---- */

void report_text(const struct check_findings *f);
void report_json(const struct keeper *k, const struct check_findings *f);
void report_sarif(const struct keeper *k, const struct check_findings *f);
void report_github(const struct keeper *k, const struct check_findings *f);

/* ---- upstream.c ---- */

struct upstream {
	pid_t pid;
	uint16_t port;
	char ca[PATH_MAX];
	int door, tls;                  /* listening socket; folder of its certificate */
};
/* Answers requests as EXAMPLE's `upstream` has it, and others with {}.  EXAMPLE may be NULL. */
int upstream_start(struct keeper *k, const struct node *example, struct upstream *ret_upstream, struct err *err);
/* -EPIPE: it had ended by itself, so that it may not have answered. */
int upstream_stop(struct upstream *u, struct err *err);
#endif
