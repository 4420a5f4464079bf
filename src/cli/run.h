/* run.h - the parts of `cloister run`. */
#ifndef CLOISTER_CLI_RUN_H
#define CLOISTER_CLI_RUN_H
#include <jansson.h>

#include "cell/cell_spec.h"
#include "loop/detach.h"
#include "policy/policy.h"
#include "policy/policy_source.h"
#include "vault/secret_wants.h"
#include "volume/cache.h"
#include "volume/volume.h"

struct err;
struct node;

#define RUN_VARIABLES_MAX (CELL_ARGS_MAX / 2)     /* -e and --env-file */
#define RUN_IMAGE_VARIABLES_MAX 512
#define RUN_WORDS_MAX 256               /* each, for --allow, --ca and -s */

struct run {
	struct cell_spec spec;
	enum { RUN_TTY_AUTO, RUN_TTY_YES, RUN_TTY_NO } tty;
	bool doc_tty;                   /* the cell document has a terminal, if nobody is at it */
	bool has_workspace;
	const char *as_it_is;           /* a variable of -e that is known to hold a key; or NULL */
	struct run_variable {
		char *entry;            /* NAME=VALUE */
		const char *file;       /* of --env-file; NULL: from -e */
	} *given;                       /* in order */
	size_t n_given;
	struct run_agent *agent;        /* `run NAME`: run_agent.h; or NULL */
	bool profile_is_set;            /* --profile */
	bool timing, json;              /* --timing, --json */
	bool warm;                      /* --warm */
	bool strict;                    /* --strict */
	enum policy_record record;      /* --record */
	bool forkable;
	int point_memory, point_state;  /* --fork-of: 0: none */
	const char *fork_name;
	char fork_machine[HASH_HEX + 1];
	bool restarts, restart_always;  /* --restart */
	uint64_t restart_most;
	bool leaves, attaches;          /* --detach-keys; and this process is then a client of its cell */
	struct detach detach;
	int hold_fd;                    /* --hold; 0: none */
	uint64_t begun_ns;              /* see base/timing.h */
	bool learn;                     /* allow everything, and record it: `cloister learn` */
	const char *policy_file;        /* -p, or NULL */
	const char *tools_file;         /* --tools, or NULL */
	const char *input_file;         /* --input, or NULL */
	const char *vm_kernel;          /* --vm-kernel, or NULL */
	const char *image;              /* a reference: --image, --root minimal, or the document's; or NULL */
	char *image_text;               /* it, if the document has an image; or NULL */
	const char *image_name, *image_digest;  /* the document's, or NULL */
	const char *entrypoint;         /* --entrypoint, or NULL */
	bool host_root;                 /* --root host */
	json_t *image_config;           /* with an image: what it asks for */
	char **engine_layers;           /* folders of an engine's image, the lowest first; NULL: they are not known */
	struct policy_boundary boundary, demanded;      /* what is asked for, and what policies demand */
	struct policy_images images;                    /* what policies and the document require of the cell's image */
	const char *boundary_by;        /* who asks for it */
	const char *runtime_by;         /* who asks for its OCI runtime */
	/* --doc: run_doc.c.  The strings of DOC are borrowed by other members. */
	json_t *doc;                    /* or NULL */
	const char *doc_file;
	const char *described;          /* an option that a document has instead; or NULL */
	bool print_doc;
	struct cell_limits asked;       /* without those of policies */
	const char *input_blob;         /* the document's, or NULL */
	char *input_path;               /* the file of that blob; or NULL */
	const char *blobs[CELL_GRANTS_MAX];     /* the hash of a grant that is a capability; or NULL */
	const char *policy_name, *policy_text;  /* the document's, or NULL */
	const char *authorities;        /* the document's, or NULL */
	bool no_policy;                 /* ignore a cloister.yaml */
	bool policy_found;              /* the policy was found, not named */
	bool policy_accepted;           /* a person has accepted its content */
	const char *policy_folder;      /* the folder of a found policy, while it is read */
	struct secret_wants wants;      /* the secrets in the policy */
	struct policy_source source;    /* the policy's text */
	const char *allows[RUN_WORDS_MAX], *cas[RUN_WORDS_MAX], *secrets[RUN_WORDS_MAX];
	char *allow_places[RUN_WORDS_MAX];      /* where each of ALLOWS is from; NULL: the command line */
	size_t n_allows, n_cas, n_secrets;
	const char *rate, *bandwidth;   /* as they were given, or NULL */
	struct run_layer *within;       /* --within, the nearest first: run_within.c */
	size_t n_within;
	char **placeholders;            /* NAME=VALUE, from -s; NULL: none */
	char **git;                     /* NAME=VALUE, by which git uses HTTPS; NULL: none */
	/* Memory files, if spec.has_policy, spec.has_authorities and spec.has_secrets; and the
	 * channel to spec.keeper. */
	int policy_fd, policy_text_fd, counts_fd, cas_fd, secrets_fd, keeper_fd;
	int image_fd;                   /* with an image: it is in use */
	struct policy_volumes volumes;  /* --volume-name, the document's, and then the policy's */
	struct policy_volumes caches;   /* --cache, the document's, and then the policy's */
	const struct cache_kind *cache_kinds[POLICY_CACHES_MAX];        /* of each, once it is found */
	const struct cache_kind *fills; /* the first volume becomes a version of such a cache; or NULL */
	int volumes_fd;                 /* with volumes or caches: they are in use */
	int layer_fd;                   /* with spec.image.build: gets the layer */
	struct policy_states states;    /* --state, the document's, and then the policy's */
	const char *state_commits[POLICY_STATES_MAX];   /* the document's, or NULL */
	const char *state_every;        /* --state-every, or NULL */
	int saver_fd;                   /* with spec.states: the channel to cloister-saver */
};
void run_free(struct run *run);         /* for OWN() too */

/* run.c: the first parses the command line (set RUN->learn before).  The second becomes the cell's
 * supervisor, or starts one in the background; returns an exit status, or a negative errno. */
int run_describe(int argc, char **argv, struct run *run, struct err *err);
int run_start(const struct run *run, struct err *err);
/* Takes the option NAME with VALUE, as if it were on the command line. */
int run_take_option(struct run *run, const char *name, const char *value, struct err *err);

/* Starts a supervisor that waits, with a virtual machine, for a cell like that of RUN. */
int run_wait(const struct run *run, struct err *err);

/* run_warm.c: hands the cell, with the descriptors that its supervisor needs, to a supervisor that waits for
 * such a cell.  The caller owns the result, a connection to it; negative: there is none. */
struct spawn_fd;
int run_hand_over(const struct run *run, const struct spawn_fd *files, size_t n);
/* The exit status of `run`, if that supervisor did not start the cell. */
int run_handed_status(int socket);

/* run_doc.c: the first takes the cell from the document FILE.  The second prints the document of
 * RUN, whose policy is known. */
int run_take_doc(struct run *run, const char *file, struct err *err);
int run_print_doc(const struct run *run, struct err *err);

/* run_image.c: --root, whose VALUE may be NULL; and the image of a document, of which NAME or DIGEST may be
 * NULL. */
int run_set_root(struct run *run, const char *value, struct err *err);
int run_take_image(struct run *run, const char *name, const char *digest, struct err *err);
/* Finds the image, and sets spec.image and what else it asks for.  The result is positive, an exit status, if the
 * operator knows already why it failed. */
int run_finish_image(struct run *run, struct err *err);
/* --layer */
int run_set_layer(struct run *run, const char *value, struct err *err);

#define RUN_MINIMAL "minimal:"          /* the reference of cloister's own image */
/* The image alone, in cloister's own store. */
int run_find_in_store(struct run *run, struct err *err);
/* run_engine.c: the container engine, for spec.engine; then the same for an image in it. */
int run_find_engine(struct run *run, struct err *err);
int run_finish_engine(struct run *run, struct err *err);

/* run_config.c: command, working folder and user. */
int run_use_config(struct run *run, struct err *err);
/* Calls PUT for each variable ("NAME=VALUE") of the image, and warns of secrets.  PUT returns 0 or -ENOMEM. */
int run_put_image_env(const struct run *run, int (*put)(void *arg, const char *entry), void *arg, struct err *err);
void run_hint_ports(const struct run *run);

/* run_blobs.c: the path of a blob, which matches its hash.  The caller owns *ret_path. */
int run_find_blob(const char *hash, char **ret_path, struct err *err);

/* run_grants.c */
int run_add_workspace(struct run *run, const char *text, struct err *err);
int run_add_volume(struct run *run, const char *text, struct err *err);
/* The same without parsing.  CELL may be NULL: the same path as on the host. */
int run_grant_workspace(struct run *run, const char *dir, enum cell_access access, struct err *err);
int run_grant_path(struct run *run, const char *host, const char *cell, enum cell_access access,
                   struct err *err);

/* Refuses a path in the cell at which nothing can be granted. */
int run_check_inside(const char *path, struct err *err);
/* Grants what USE holds, at the path CELL.  CACHE: "NAME@HASH" of a cache's version; or NULL. */
int run_grant_volume(struct run *run, struct volume_use *use, const char *cell, const char *cache, struct err *err);

/* run_volumes.c: --volume-name; then the volumes of policies, which yield to it.  The last finds them, and holds them, once
 * the policy is known. */
int run_add_volume_name(struct run *run, const char *text, struct err *err);
int run_take_volumes(struct run *run, const struct policy_volumes *volumes, struct err *err);
int run_finish_volumes(struct run *run, struct err *err);

/* run_caches.c: the same for --cache, "NAME[@VERSION][:PATH]".  The third grants them. */
int run_add_cache(struct run *run, const char *text, struct err *err);
int run_take_caches(struct run *run, const struct policy_volumes *caches, struct err *err);
int run_grant_caches(struct run *run, struct volumes *v, struct err *err);
/* The file of settings that programs of KIND need for the files of USE, at PATH in the cell. */
int run_grant_settings(struct run *run, struct volumes *v, const struct volume_use *use, const struct cache_kind *kind,
                       const char *path, struct err *err);
/* Calls PUT for each variable by which programs use the caches.  PUT returns 0 or -ENOMEM. */
int run_put_cache_env(const struct run *run, int (*put)(void *arg, const char *name, const char *value), void *arg);

/* run_agent.c: describes the cell by the profile that argv[0] names.  Returns 1, or 0 if there is none of that
 * name. */
int run_take_agent(struct run *run, int argc, char **argv, struct err *err);

/* run_agent_login.c: after the secrets, puts files of them into folders that the agent keeps. */
int run_agent_place_files(struct run *run, struct err *err);
/* run_project.c: the same for the agent that the project's policy names.  Returns 1, or 0 if it names none. */
int run_take_project(struct run *run, struct err *err);

/* run_state.c: --state and --state-every; then the states of policies, which yield to them.  The last asks cloister-saver
 * for them, and grants them, once the policy is known. */
int run_add_state(struct run *run, const char *text, struct err *err);
int run_set_state_every(struct run *run, const char *value, struct err *err);
int run_take_states(struct run *run, const struct policy_states *states, struct err *err);
int run_finish_states(struct run *run, struct err *err);

/* run_hints.c: hints where -e and -v may do something else than intended. */
void run_note_env(struct run *run, const char *text);
void run_print_hints(const struct run *run);
/* The operator's home without links; the caller owns it.  NULL: there is none. */
char *run_find_home(void);

/* run_broad.c: warns of grants that are broader than a project; with --strict, refuses them. */
int run_note_broad(const struct run *run, struct err *err);

/* run_fork.c: --fork-of of `cloister fork`, and what --forkable needs; the last is for a described cell. */
int run_set_fork(struct run *run, const char *value, struct err *err);
void run_settle_fork(struct run *run);
int run_finish_fork(struct run *run, char **argv, struct err *err);

/* run_again.c: --restart, whose VALUE may be NULL, and --attempt. */
int run_set_restart(struct run *run, const char *value, struct err *err);
int run_set_attempt(struct run *run, const char *value, struct err *err);
/* Refuses options that do not go together with --restart. */
int run_check_restart(const struct run *run, struct err *err);
/* Whether this process only starts cells, with the same command line: only that is described. */
static inline bool
run_is_keeper(const struct run *run)
{
	return run->restarts && run->spec.series[0] == '\0' && !run->print_doc;
}
/* Starts the cells, one after the other.  Returns an exit status, or a negative errno. */
int run_again(const struct run *run, int argc, char **argv, struct err *err);

/* run_hooks.c */
int run_set_id(struct run *run, const char *value, struct err *err);
int run_set_hold(struct run *run, const char *value, struct err *err);
/* Whoever holds the cell reports the error: standard error is the command's.  Returns an exit status. */
int run_tell_holder(const struct run *run, const struct err *err);
int run_add_env_file(struct run *run, const char *file, struct err *err);
int run_add_setup(struct run *run, const char *path, struct err *err);
int run_set_principal(struct run *run, const char *text, struct err *err);
int run_set_chain(struct run *run, const char *text, struct err *err);
/* Refuses options that do not go together. */
int run_finish_hooks(const struct run *run, struct err *err);
/* Makes FILE the standard input. */
int run_take_input(const char *file, struct err *err);

/* run_policy.c */
int run_add_word(const char *words[RUN_WORDS_MAX], size_t *n, const char *word,
                 const char *option, struct err *err);
/* Seals the memory file FD against changes. */
int run_seal(int fd, struct err *err);
/* Where the search for a policy starts: the workspace, or else the current folder. */
const char *run_find_project(const struct run *run);
/* Whether a cloister.yaml in FOLDER, whose path is WHERE, counts although nobody named it. */
int run_check_found(int folder, const char *where, struct err *err);
int run_add_allow(struct run *run, const char *text, struct err *err);
/* The same, for a rule of a profile: from LINE of FILE. */
int run_add_allow_of(struct run *run, const char *text, const char *file, size_t line, struct err *err);
int run_add_ca(struct run *run, const char *text, struct err *err);
int run_add_port(struct run *run, const char *text, struct err *err);
int run_set_rate(struct run *run, const char *text, struct err *err);
int run_set_bandwidth(struct run *run, const char *text, struct err *err);
/* The cell's rules come from this file, too, so `apply` holds it back. */
int run_add_source(struct run *run, const char *path, struct err *err);
/* Loads a policy from TEXT.  It may include presets only. */
struct policy;
struct policy_limits;
struct policy_reader;
int run_load_policy_text(const char *name, const char *text, const struct policy_reader *reader,
                         struct policy **ret_policy, struct policy_limits *ret_limits,
                         struct err *err);
/* The certificates of --ca, checked, PEM. */
int run_read_authorities(const struct run *run, struct buf *ret_all, struct err *err);
/* Loads the policy, if there is one.  Call it when all grants are known. */
int run_finish_policy(struct run *run, struct err *err);

/* run_git.c: sets run->git.  A cell cannot restrict git over SSH, so with a policy that lets git through over HTTPS
 * alone, git in the cell uses HTTPS for SSH addresses of those hosts, too. */
int run_note_git(struct run *run, const struct policy *policy, struct err *err);
/* The same for a command in the cell of that environment. */
int run_copy_git(struct run *run, char *const *env, struct err *err);

/* run_trust.c: from here on, files that this cell may write count as written by it. */
int run_distrust_grants(const struct run *run, struct err *err);
/* For policy_reader.hook: refuses a hook that an agent could have written, and one that cannot run. */
struct node;
struct policy_hook;
int run_take_hook(void *arg, const struct node *node, const struct policy_hook *hook,
                  struct err *err);

/* run_tools.c */
/* The policy of --tools with that of -p, as a file to read: *ret_path, which the caller frees, is valid as long as
 * *ret_fd is open. */
int run_tools_policy(const struct run *run, char **ret_path, int *ret_fd, struct err *err);
/* If the policy has tools, gives the cell the program that speaks with them over standard input and output. */
int run_finish_tools(struct run *run, struct err *err);

/* run_agent_mcp.c: once the policy is known, adds the words and variables that tell the agent of a profile of its MCP
 * servers, and of the policy's tools. */
int run_agent_tell_mcp(struct run *run, struct err *err);

/* run_within.c */
struct vault_binding;
int run_add_within(struct run *run, const char *file, struct err *err);
/* The same with the text of the policy, which a document has. */
int run_add_within_text(struct run *run, const char *name, const char *text, struct err *err);
/* Appends them to LIST, for a document. */
int run_put_within(const struct run *run, json_t *list, struct err *err);
void run_free_within(struct run *run);
/* Narrows the rules of POLICY (NULL: there is none), the limits and the reaction to exfiltration to
 * what every policy of --within permits too. */
int run_finish_within(struct run *run, struct policy *policy, struct err *err);
/* Leaves out secrets that are not in all of --within, and reports them. */
int run_narrow_secrets(struct run *run, struct err *err);
/* Applies their restrictions to a secret that is left. */
void run_bind_within(struct run *run, struct vault_binding *b);

/* run_secrets.c */
int run_add_secret(struct run *run, const char *text, struct err *err);
/* For a policy_reader; RUN is a struct run. */
int run_take_secrets(void *run, const struct node *node, struct err *err);
/* Makes the vault give values to the courier and placeholders to this process.  The policy is known. */
int run_finish_secrets(struct run *run, struct err *err);

/* run_env.c */
int run_add_env(struct run *run, const char *text, const char *file, struct err *err);
/* Builds the agent's whole environment: the few documented variables, placeholders, and those of -e. */
int run_finish_env(struct run *run, struct err *err);

/* run_boundary.c: BY asks for the boundary TEXT.  The second sets spec.boundary, once all policies are
 * known. */
/* run_record.c */
const char *run_record_name(enum policy_record level);
int run_set_record(struct run *run, const char *value, const char *by, struct err *err);
/* A policy demands SAID, and so does one more: the second may only raise it. */
void run_finish_record(struct run *run, const struct policy_limits *said);
void run_raise_record(struct cell_spec *spec, const struct policy_limits *said);

int run_set_boundary(struct run *run, const char *text, const char *by, struct err *err);
extern const char run_by_document[];    /* BY, for a cell document */
int run_finish_boundary(struct run *run, struct err *err);
/* run_runtime.c: the names of OCI runtimes, ended by NULL; and the program of one, if it is installed. */
extern const char *const run_runtimes[];
bool run_find_runtime(const char *name, char ret_path[PATH_MAX]);
/* The first line that a runtime prints about itself, "crun version 1.8.1", or "". */
#define RUN_VERSION_MAX 120
void run_ask_version(const char *program, char ret_line[RUN_VERSION_MAX]);
/* BY asks for the OCI runtime TEXT: a name or a path. */
int run_set_runtime(struct run *run, const char *text, const char *by, struct err *err);
/* For a boundary that has none: an error, if an option asks for one. */
int run_refuse_runtime(const struct run *run, struct err *err);
/* Whether the OCI runtime that was asked for is gVisor's.  The second sets spec.runtime, with a boundary that
 * has one; RUNTIME is the one that was asked for or demanded, or "". */
bool run_runtime_is_sandbox(const struct run *run);
int run_finish_runtime(struct run *run, const char *runtime, struct err *err);

/* run_vm.c */
int run_set_accel(struct run *run, const char *value, struct err *err);
int run_set_monitor(struct run *run, const char *value, struct err *err);
int run_set_vm_net(struct run *run, const char *value, struct err *err);
/* A policy_boundary_can; RUN is a struct run. */
int run_can_vm(void *run, struct err *err);
/* With the boundary microvm, sets spec.vm_kernel and spec.vm_initramfs.  The result is positive, an exit
 * status, if the operator knows already why it failed. */
int run_finish_vm(struct run *run, struct err *err);

/* run_disk.c: the disk with the programs of the folder spec->rootfs: sets spec.vm_disk, and makes the disk if
 * there is none in the folder CACHE.  Without a program that makes disks, and after an error, which is printed, it
 * stays NULL: then the folder is shared. */
void run_find_disk(struct cell_spec *spec, const char *cache);
#endif
