/* oci.h - the parts of cloister-oci: an OCI runtime whose containers are cells.
 *
 * An engine calls it once for each step.  Between the steps, the container's state is in a folder, and
 * its cell is kept by a supervisor, whose pid is the container's for the engine. */
#ifndef CLOISTER_OCI_H
#define CLOISTER_OCI_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/cell_dirs.h"

struct err;

#define OCI_VERSION "1.0.2"             /* of the specification */
#define OCI_FILE_MAX (4u << 20)         /* bytes of a config.json, or of a process file */
#define OCI_ID_MAX 255
#define OCI_SECRETS_MAX 16

/* The words of the command line. */
struct oci {
	/* Before the command. */
	const char *root;               /* the folder of states; NULL: the default */
	const char *log;                /* a file for errors, or NULL */
	bool log_json;
	const char *policies;           /* the folder of policies; NULL: the default */
	const char *policy;             /* of every container, whatever its annotations say; or NULL */
	const char *secrets[OCI_SECRETS_MAX];   /* that a container may name */
	size_t n_secrets;
	/* Behind it. */
	const char *command;
	const char *bundle, *pid_file, *console, *process, *format, *cwd, *user, *environment[64];
	size_t n_environment;
	bool detach, force, all, tty;
	const char **words;             /* the rest; ends with NULL */
	size_t n_words;
};

/* A container as its folder describes it. */
struct oci_state {
	char id[OCI_ID_MAX + 1];
	char cell[CELL_ID_LEN + 1];
	pid_t pid;                      /* of the supervisor */
	uint64_t since;                 /* when that process started: with PID, it names one process */
	bool is_started;
	char *bundle, *created;
	json_t *annotations;            /* or NULL */
};
void oci_state_free(struct oci_state *state);   /* for OWN() too */

enum oci_status { OCI_CREATED, OCI_RUNNING, OCI_PAUSED, OCI_STOPPED };
extern const char *const oci_status_names[];

/* oci_state.c: the folder of states, and of one container.  -EEXIST: there is such a container; -ENOENT: there
 * is none. */
int oci_state_root(const struct oci *oci, struct err *err);
int oci_state_make(int root, const char *id, struct err *err);
int oci_state_write(int dir, const struct oci_state *state, struct err *err);
int oci_state_mark_started(int root, const char *id, struct err *err);
int oci_state_read(int root, const char *id, struct oci_state *ret_state, struct err *err);
void oci_state_remove(int root, const char *id);
enum oci_status oci_state_status(const struct oci_state *state);
bool oci_state_is_alive(const struct oci_state *state);
uint64_t oci_process_since(pid_t pid);  /* 0: it is gone, or waits to be reaped */

/* oci_config.c: the cell document of the bundle in the folder BUNDLE.  The caller owns all results. */
struct oci_config {
	json_t *config;                 /* what the engine wrote */
	json_t *doc;
	bool terminal;
	unsigned rows, columns;
};
int oci_config_read(const struct oci *oci, const char *bundle, struct oci_config *ret_config, struct err *err);
void oci_config_free(struct oci_config *config);        /* for OWN() too */
/* Reads and parses a file of the engine's. */
int oci_read_json(const char *path, json_t **ret_value, struct err *err);
/* OBJECT.NAME if it is a text; else NULL. */
const char *oci_text(const json_t *object, const char *name);

/* oci_mounts.c: adds the mounts of CONFIG to DOC, as grants and empty folders. */
int oci_take_mounts(const json_t *config, const char *bundle, json_t *doc, json_t *ret_scratches, struct err *err);

/* oci_layers.c: the layers of the root file system at PATH, without links, the lowest first. */
int oci_find_layers(const char *path, json_t *ret_layers, bool *ret_metacopy, struct err *err);
/* The same from MOUNTINFO, a text that is changed; for tests. */
int oci_parse_layers(char *mountinfo, const char *path, json_t *ret_layers, bool *ret_metacopy, struct err *err);

/* oci_policy.c: adds the policy and the secrets that ANNOTATIONS name to DOC. */
int oci_take_policy(const struct oci *oci, const json_t *annotations, json_t *doc, struct err *err);

/* oci_console.c: makes a terminal and sends its master side to the socket PATH.  The caller owns the
 * slave side, which is returned. */
int oci_open_console(const char *path, unsigned rows, unsigned columns, struct err *err);
/* In a child: makes the terminal FD its own, and its standard input and output. */
int oci_enter_console(int fd, struct err *err);

/* The commands return an exit status, or a negative errno. */
int oci_create(const struct oci *oci, struct err *err);         /* oci_create.c */
int oci_run(const struct oci *oci, struct err *err);
int oci_start(const struct oci *oci, struct err *err);          /* oci_control.c */
int oci_kill(const struct oci *oci, struct err *err);
int oci_delete(const struct oci *oci, struct err *err);
int oci_pause(const struct oci *oci, struct err *err);
int oci_resume(const struct oci *oci, struct err *err);
int oci_show_state(const struct oci *oci, struct err *err);     /* oci_show.c */
int oci_list(const struct oci *oci, struct err *err);
int oci_ps(const struct oci *oci, struct err *err);
int oci_features(const struct oci *oci, struct err *err);
int oci_exec(const struct oci *oci, struct err *err);           /* oci_exec.c */

/* oci_control.c: the parts that `run` and `exec` share. */
int oci_start_cell(const struct oci_state *state, struct err *err);
int oci_end_cell(const struct oci_state *state, struct err *err);
/* The cell's entry; the runtime folder is returned. */
int oci_find_cell(const struct oci_state *state, struct cell_entry *ret_entry, struct err *err);
/* Writes PID to the file PATH, if that is not NULL, in one step. */
int oci_write_pid(const char *path, pid_t pid, struct err *err);
#endif
