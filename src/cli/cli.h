/* cli.h - shared by all commands: their table, their options, and talking to cells. */
#ifndef CLOISTER_CLI_H
#define CLOISTER_CLI_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/tell.h"
#include "cell/cell_dirs.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

#define CLI_FAILED TELL_FAILED

/* One option; a table of them ends with a NULL name.  The tables feed parsing, `help`, and the test
 * that man pages omit none. */
struct cli_option {
	const char *name;               /* without the dashes */
	char letter;                    /* 0 if there is none */
	const char *arg;                /* the name of its value; NULL for a flag.  "[A|B]": it may be left out,
	                                 * and then the next word is not A or B; N is any number */
	const char *help;
	int id;                         /* for TAKE; or CLI_FLAG or CLI_TEXT */
};

/* As an option's id: the parser sets this member of the TYPE that ARG points to.  CLI_BOOL: ARG points
 * to the bool. */
#define CLI_SETS(type, member, is) _Generic(((type *)0)->member, is: -1 - (int)offsetof(type, member))
#define CLI_FLAG(type, member) CLI_SETS(type, member, bool)
#define CLI_TEXT(type, member) CLI_SETS(type, member, const char *)
#define CLI_BOOL (-1)

struct cli_command {
	const char *name, *args, *help;
	const struct cli_option *options;
	int (*run)(int argc, char **argv);      /* argv[0] is the command's name */
};

extern const struct cli_command cli_commands[];     /* ends with a NULL name */
extern const struct cli_command *cli_current;       /* the one that runs */
const struct cli_command *cli_find_command(const char *name);   /* NULL: there is none */
void cli_help_all(void);
void cli_help_one(const struct cli_command *c);

/* A verb of a command: `cloister secret add NAME`. */
struct cli_verb {
	const char *use, *help;         /* "add NAME" */
};
/* Those of a command, ended by a NULL use; NULL: it has none. */
const struct cli_verb *cli_verbs_of(const struct cli_command *c);

extern const struct cli_option cli_run_options[], cli_ps_options[], cli_logs_options[],
	cli_exec_options[], cli_stop_options[], cli_kill_options[], cli_diff_options[],
	cli_apply_options[], cli_discard_options[], cli_trust_options[], cli_policy_options[], cli_doctor_options[],
	cli_no_options[], cli_operator_options[], cli_secret_options[], cli_serve_options[], cli_worker_options[];

extern const struct cli_option cli_events_options[], cli_learn_options[], cli_registry_options[], cli_assign_options[],
	cli_dispatch_options[], cli_dispatches_options[], cli_mcp_options[], cli_audit_options[],
	cli_allow_options[], cli_dashboard_options[];

extern const struct cli_option cli_fork_options[], cli_freeze_options[], cli_revoke_options[], cli_rotate_options[],
	cli_ttl_options[], cli_budget_options[], cli_approvals_options[], cli_approve_options[],
	cli_refuse_options[], cli_why_options[], cli_purge_options[], cli_vm_options[], cli_image_options[], cli_volume_options[],
	cli_profile_options[], cli_attach_options[], cli_init_options[], cli_tree_options[], cli_replay_options[],
	cli_review_options[], cli_tools_options[], cli_store_options[], cli_state_options[], cli_plan_options[],
	cli_rebuild_options[], cli_cache_options[];

/* Ids of the registry's options; `policy` has them besides its own. */
enum { CLI_REGISTRY_FIRST = 100 };
#define CLI_REGISTRY_OPTIONS \
	{ "name", 'n', "NAME", "register: use this name instead of the file's", CLI_REGISTRY_FIRST }, \
	{ "all", 'a', NULL, "list: include retired names", CLI_REGISTRY_FIRST }, \
	{ "limit", 'l', "N", "list, history: show at most N", CLI_REGISTRY_FIRST }, \
	{ "after", 0, "NAME|N", "list, history: continue after this one", CLI_REGISTRY_FIRST }, \
	{ "canonical", 0, NULL, "show: print only the bytes that the hash covers", CLI_REGISTRY_FIRST }, \
	{ "undo", 0, NULL, "retire: make a retired version usable again", CLI_REGISTRY_FIRST }, \
	{ "json", 0, NULL, "print JSON for programs", CLI_REGISTRY_FIRST }

int cmd_run(int argc, char **argv);
int cmd_ps(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_events(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_tree(int argc, char **argv);
int cmd_replay(int argc, char **argv);
int cmd_review(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_learn(int argc, char **argv);
int cmd_exec(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_stop(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_freeze(int argc, char **argv);
int cmd_pause(int argc, char **argv);
int cmd_resume(int argc, char **argv);
int cmd_fork(int argc, char **argv);
int cmd_thaw(int argc, char **argv);
int cmd_allow(int argc, char **argv);
int cmd_revoke(int argc, char **argv);
int cmd_rotate(int argc, char **argv);
int cmd_ttl(int argc, char **argv);
int cmd_budget(int argc, char **argv);
int cmd_approvals(int argc, char **argv);
int cmd_approve(int argc, char **argv);
int cmd_refuse(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_apply(int argc, char **argv);
int cmd_discard(int argc, char **argv);
int cmd_plan(int argc, char **argv);
int cmd_rebuild(int argc, char **argv);
int cmd_purge(int argc, char **argv);
int cmd_trust(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_secret(int argc, char **argv);
int cmd_registry(int argc, char **argv);
int cmd_dispatch(int argc, char **argv);
int cmd_dispatches(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_operator(int argc, char **argv);
int cmd_worker(int argc, char **argv);
int cmd_dashboard(int argc, char **argv);
int cmd_mcp(int argc, char **argv);
int cmd_audit(int argc, char **argv);
int cmd_vm(int argc, char **argv);
int cmd_image(int argc, char **argv);
int cmd_volume(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_tools(int argc, char **argv);
int cmd_state(int argc, char **argv);
int cmd_completion(int argc, char **argv);
int cmd_version(int argc, char **argv);
int cmd_help(int argc, char **argv);

/* Walks the options of argv.  Sets the member that an option names, if any, and calls TAKE, if not
 * NULL, with its value (NULL for a flag).  TAKE returns 0 or a negative errno.  Options end at the
 * first other word or after "--"; its index is *ret_rest.  With ANYWHERE they may also follow other
 * words, which are moved to the end.  Among them, --help prints the command's help and ends the process. */
int cli_parse(const struct cli_option *options, int argc, char **argv, bool anywhere,
              int (*take)(void *arg, const struct cli_option *option, const char *value,
                          struct err *err),
              void *arg, int *ret_rest, struct err *err);
/* The option "--name" or "-n", or NULL. */
const struct cli_option *cli_find_option(const struct cli_option *options, const char *word);
bool cli_asks_for_help(const char *word);       /* "--help", "-h": no command has options of these names */
/* A TAKE that checks the text of --why. */
int cli_check_why(void *arg, const struct cli_option *option, const char *value, struct err *err);

/* "cloister: TEXT" on standard error; returns CLI_FAILED. */
int cli_fail(const struct err *err);
int cli_failf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* editor.c: lets a person edit the file PATH. */
int cli_run_editor(const char *path, struct err *err);

/* Waits until PID, a cloister-vault, is done.  If it failed, it has printed the reason, and this
 * process ends. */
int cli_await_vault(pid_t pid, struct err *err);
/* Becomes HELPER with argv's options, checked, and words, as base/args.h describes them. */
int cli_hand_over(const char *helper, const struct cli_option *options, int argc, char **argv);
/* The verbs of `policy` that cloister-registry handles: "register", "list" ... */
#define CLI_REGISTRY_VERBS 6
extern const char *const cli_registry_verbs[CLI_REGISTRY_VERBS + 1];    /* ends with NULL */
bool cli_is_registry_verb(const char *word);

/* Records in the operator's timeline that N cells were asked at once.  SECRET and WHY may be NULL. */
int cli_note_every(enum steer_verb verb, size_t n, const char *secret, const char *why, struct err *err);
/* A connection to a running cell's supervisor; -ENOENT if no such cell runs. */
int cli_connect(const char *word, struct cell_entry *ret_entry, struct err *err);
/* The same without the connection: returns the folder of running cells and the cell's entry there. */
int cli_find_running(const char *word, struct cell_entry *ret_entry, struct err *err);
/* Waits for the cell WORD to end, if it has not ended. */
int cli_await_end(const char *word, uint32_t *ret_status, struct err *err);
/* If nothing of the running cell ID lives any more, waits until it has been tidied up.  False: it
 * lives, or its supervisor does not answer. */
bool cli_await_tidy(const char *id);

/* Whether WORD is the whole id or name of a cell with a state entry. */
bool cli_is_kept(const char *word);
/* The state entry for WORD, as cell_find().  If the cell has none any more, the error explains that. */
int cli_find_kept(int state, const char *word, struct cell_entry *ret_entry, struct err *err);
/* Reads the record of the ended cell WORD; *ret_dir is its open state entry. */
int cli_open_record(const char *word, struct cell_entry *ret_entry, int *ret_dir,
                    struct cell_record *ret_record, struct err *err);
#endif
