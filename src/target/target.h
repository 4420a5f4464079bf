/* target.h - a target is a place where cells run.
 *
 * It starts a cell from its document (cell/cell_doc.h), shows whether the cell lives, passes on its
 * output, and hands over what it left.  It decides nothing: who runs what, how often and with which
 * rights is the caller's business.
 *
 * A cell is known by the id that its caller chose.  The id is also the claim: two starts with the
 * same id make one cell, whichever process made them.  So a caller that was killed finds its cells
 * again, with the id alone.
 *
 * Callbacks come from the caller's loop, never from within a function of the target. */
#ifndef CLOISTER_TARGET_H
#define CLOISTER_TARGET_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/cell_dirs.h"

struct err;
struct loop;
struct target_place;                    /* opaque: a target in a loop */
struct target_link;                     /* opaque: a caller's connection to one cell */

#define TARGET_SAID_MAX 512

enum target_state {
	TARGET_NONE,                    /* unknown here: it may yet start */
	TARGET_BURIED,                  /* it never ran, and never will */
	TARGET_LIVE,
	TARGET_ENDED,                   /* harvest() shows how */
	TARGET_LOST,                    /* it ended, and nobody knows how */
};

struct target_hooks {
	/* start() is over.  SURE: look() shows whether the cell has begun; else it may still begin.
	 * SAID is the last message, "" if there was none. */
	void (*started)(void *arg, bool sure, const char *said);
	/* The cell has appeared, or there is more in a stream. */
	void (*news)(void *arg);
	/* After follow(): the cell has ENDED, or it cannot be followed any more. */
	void (*left)(void *arg, bool ended);
	void *arg;
};

struct target_work {
	json_t *doc;                    /* the cell document */
	/* Variables that may not be in a document, because they are secret: NAME=VALUE, each with a
	 * NUL.  They replace those of the document. */
	const void *env;
	size_t env_len;
	const char *lent;               /* the claim for which a service lends the secrets; NULL: they are this machine's */
};

enum target_stream {
	TARGET_STDOUT, TARGET_STDERR,
	TARGET_STEPS,                   /* lines of JSON: the setups that ran, the start of the agent */
	TARGET_STREAMS
};

enum target_verb {
	TARGET_STOP,                    /* ask the agent to end, and kill it after grace_ms */
	TARGET_LOST_RIGHTS,             /* report the rights that the cell has lost; it must be live */
	TARGET_BURY,                    /* the cell must not start any more; -EEXIST: it has */
};
struct target_order {
	enum target_verb verb;
	uint64_t grace_ms;
	uint32_t lost;                  /* the answer: enum cell_lost bits */
};

/* How a cell ended. */
struct target_end {
	enum cell_end end;
	uint32_t status;                /* the exit status of the agent */
	uint32_t lost;                  /* enum cell_lost bits */
	char cause[256];                /* "", or what ended it */
	char incomplete[256];           /* "", or why some files are missing */
	bool cut[2];                    /* stdout, stderr: the end is missing */
	bool has_files;                 /* FOLDER of the harvest is not empty */
	bool too_many;                  /* files, so that none could be listed */
	uint64_t left_out;              /* files that could not leave the cell */
};

/* One entry of a folder that the agent wrote: its path is hostile. */
struct target_file {
	const char *path;               /* relative to the folder */
	mode_t mode;                    /* with its type */
	uint64_t size;
	int folder;                     /* private */
};

struct target_harvest {
	const char *folder;             /* the cell's path of an overlay grant */
	/* Called for each entry that the agent made there, but not for folders.  NULL: for none. */
	int (*file)(void *arg, const struct target_file *file, struct err *err);
	void *arg;
};

struct target {
	const char *name;
	/* Whether cells can be started here at all. */
	int (*check)(struct err *err);
	/* The caller closes *ret_place, after all of its links. */
	int (*open)(struct loop *loop, struct target_place **ret_place, struct err *err);
	void (*close)(struct target_place *place);      /* NULL is fine */

	/* Connect to CELL, whether it exists or not: creates *LINK if it is NULL.  HOOKS are copied.
	 * Returns 1 if the cell has appeared, 0 if it has not yet.  May be repeated. */
	int (*attach)(struct target_place *place, const char *cell, const struct target_hooks *hooks,
	              struct target_link **link, struct err *err);
	/* Start the cell of LINK.  -EINPROGRESS: it is being started, but nothing will be reported. */
	int (*start)(struct target_link *link, const struct target_work *work, struct err *err);
	/* Wait for the end of the cell of LINK.  -ENOENT: it does not answer now. */
	int (*follow)(struct target_link *link, struct err *err);
	/* The cell goes on; no hook is called any more. */
	void (*detach)(struct target_link *link);       /* NULL is fine */

	enum target_state (*look)(const char *cell);
	int (*control)(const char *cell, struct target_order *order, struct err *err);
	/* A descriptor of a regular file that grows while the cell runs.  -ENOENT: there is nothing
	 * in it yet. */
	int (*stream)(const char *cell, enum target_stream stream);
	/* For an ended cell. */
	int (*harvest)(const char *cell, const struct target_harvest *how, struct target_end *ret_end,
	               struct err *err);
	int (*open_file)(const struct target_file *file, struct err *err);
	/* Remove what is kept of an ended cell.  Its timeline stays. */
	int (*discard)(const char *cell, struct err *err);
};

#define TARGET_DOCKER "docker"
extern const struct target target_local, target_docker;
/* What workers take that run it on their own machine: "pool:NAME". */
#define TARGET_POOL "pool:"
#define TARGET_POOL_NAME_MAX 32
/* The name, if TARGET is a pool; else NULL. */
const char *target_pool(const char *target);

#define TARGETS_MAX 8

/* The target NAME, for as long as the process runs; -EINVAL. */
int target_find(const char *name, const struct target **ret_target, struct err *err);
const struct target *target_nth(size_t i);      /* NULL behind the last */
#endif
