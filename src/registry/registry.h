/* registry.h - registered objects: capabilities, agents, envs, policies and targets.
 *
 * A version is immutable and named by its content: canonical JSON (canon/canon.h), and the SHA-256
 * of that.  A name refers to its newest version that is not retired.
 *
 *   DATA/registry/     (base/data.h; 0700)
 *     db.sqlite        names and versions; WAL, every commit is on the disk
 *     blobs/ab/cd..    contents of files by SHA-256; on the disk before a version names them.  A
 *                      process that removes some locks the folder (flock); one that touches some
 *                      locks it shared
 *     trees/HEX/files/ a capability's files as a read-only folder; made when first needed, and
 *                      checked against its hash each time.  HEX/content.json is its content
 *     tmp/             files that are being written
 *
 * Everything here blocks.  One handle belongs to one thread; processes share the folder. */
#ifndef CLOISTER_REGISTRY_H
#define CLOISTER_REGISTRY_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "canon/hash.h"

struct db;
struct err;
struct object;                          /* object.h */
struct registry;                        /* opaque */

#define REGISTRY_NAME_MAX 63
#define REGISTRY_REF_MAX (REGISTRY_NAME_MAX + 1 + HASH_NAME)    /* "name@sha256:..." */
#define REGISTRY_PREFIX_MIN 8           /* digits of an abbreviated hash */
#define REGISTRY_TIME_MAX 32            /* "2026-11-15T16:00:00.000Z" and a NUL */
#define REGISTRY_PAGE_MAX 1000
#define REGISTRY_BLOB_MAX (1024ull * 1024 * 1024)

enum registry_kind { REGISTRY_CAPABILITY, REGISTRY_AGENT, REGISTRY_ENV, REGISTRY_POLICY, REGISTRY_TARGET,
                     REGISTRY_KINDS };
/* "capability", "agent" ...; and "capabilities", "agents" ... */
extern const char *const registry_kinds[REGISTRY_KINDS + 1];
extern const char *const registry_plurals[REGISTRY_KINDS + 1];

/* [a-z0-9][a-z0-9._-]{0,62} */
bool registry_name_ok(const char *name);

/* "name", "name@sha256:HEX", and with PREFIX also abbreviated hashes (of REGISTRY_PREFIX_MIN digits
 * or more); HASH is "" for a bare name. */
struct registry_ref {
	char name[REGISTRY_NAME_MAX + 1];
	char hash[HASH_NAME + 1];
};
int registry_ref_parse(const char *text, bool prefix, struct registry_ref *ret_ref,
                       struct err *err);

/* Data of a version besides its content. */
struct registry_version {
	enum registry_kind kind;
	char name[REGISTRY_NAME_MAX + 1];
	char hash[HASH_NAME + 1];
	uint64_t number;                /* among the name's versions, from 1, in order of registration */
	bool newest;                    /* the bare name refers to it */
	uint64_t size;                  /* of the content, in bytes */
	char created[REGISTRY_TIME_MAX];
	char retired[REGISTRY_TIME_MAX];        /* "" if it is not retired */
};

/* The variable that names a Postgres (postgres://...) to be used instead of db.sqlite. */
#define REGISTRY_STORE "CLOISTER_STORE"
const char *registry_store(void);       /* its value; NULL: none */
int registry_check_store(const char *store, struct err *err);
/* The same for the value of an OPTION, which has no password. */
int registry_check_given_store(const char *option, const char *url, struct err *err);
/* Sets it for this process and its children to what --store says (NULL: nothing), if that is a store without a
 * password: everybody can read a command line. */
int registry_use_store(const char *url, struct err *err);

/* Without MAKE, -ENOENT if there is none yet.  The caller owns *ret_registry. */
int registry_open(bool make, struct registry **ret_registry, struct err *err);
void registry_close(struct registry *r);        /* NULL is fine */
OWN_BY(registry_closep, struct registry *, registry_close)
/* Its database, for the tables of src/dispatch: db.h. */
struct db *registry_db(struct registry *r);

/* Whether blobs are in S3: to put or open one may take long, and fail for a while. */
bool registry_is_remote(const struct registry *r);
/* Where they are then: "s3://BUCKET/PREFIX"; NULL: in the data folder. */
const char *registry_place(const struct registry *r);
/* How long results wait for that place when it is away: REGISTRY_PATIENCE times its `timeout`; 0: in the data folder. */
#define REGISTRY_PATIENCE 20
uint64_t registry_patience_ms(const struct registry *r);

/* ---- versions: registry_put.c, registry_find.c ---- */

/* Makes OBJECT a version, the newest of its name.  The same content is the same version: then
 * *ret_created is false, and it becomes the newest again.  A capability's blobs must exist
 * (-ENOENT).  A retired version stays retired: -EIDRM.  When this returns, the version is on the
 * disk.  Returns 1 if the name referred to another version before, or to none; else 0.  With 1,
 * NOTE (NULL: none) waits in the database. */
int registry_put(struct registry *r, const struct object *object, const char *note,
                 struct registry_version *ret_version, bool *ret_created, struct err *err);

enum registry_scope {
	REGISTRY_LIVE,                  /* for dispatching: a retired one is -EIDRM */
	REGISTRY_ALL                    /* for looking at it */
};
/* Resolves REF; hashes may be abbreviated (-ENOTUNIQ if several match).  -ENOENT: there is none,
 * and the message may suggest one.  RET_CONTENT may be NULL; otherwise the caller owns it
 * (json_decref). */
int registry_resolve(struct registry *r, enum registry_kind kind, const char *ref,
                     enum registry_scope scope, struct registry_version *ret_version,
                     json_t **ret_content, struct err *err);

/* {"kind","name","hash","number","newest","size","created","retired"}: the last is null if it is
 * not retired.  The caller owns it; NULL when out of memory. */
json_t *registry_version_json(const struct registry_version *version);

/* At most LIMIT (up to REGISTRY_PAGE_MAX) of them. */
struct registry_page {
	struct registry_version *at;
	size_t n;
	bool more;
};
void registry_page_free(struct registry_page *page);    /* for OWN() too */
/* The newest version of each name after AFTER ("": from the first), by name.  REGISTRY_LIVE leaves
 * out names all of whose versions are retired. */
int registry_list(struct registry *r, enum registry_kind kind, enum registry_scope scope,
                  const char *after, size_t limit, struct registry_page *ret_page,
                  struct err *err);
/* All versions of NAME with numbers below BEFORE (0: all), the newest first.  -ENOENT if
 * there is no such name. */
int registry_history(struct registry *r, enum registry_kind kind, const char *name,
                     uint64_t before, size_t limit, struct registry_page *ret_page,
                     struct err *err);
/* Retires one version, or with a bare name all of them; BACK undoes that.  *ret_n: how many
 * changed.  If any did, NOTE waits in the database. */
int registry_retire(struct registry *r, enum registry_kind kind, const char *ref, bool back,
                    const char *note, size_t *ret_n, struct err *err);

/* ---- assigning: registry_assign.c ---- */

/* The newest version of AGENT, with the "capabilities", "env" and "secrets" of MORE (each a list of
 * texts, or missing) added to its own: one of the same name is replaced.  registry_put() makes it a
 * version.  -ENOENT if something is not registered.  The caller owns *ret_object. */
int registry_assign(struct registry *r, const char *agent, json_t *more, struct object **ret_object,
                    struct err *err);

/* ---- notes: registry_note.c ---- */

/* An event for the operator's timeline is stored in the database together with its change, until it
 * is written to the timeline.  A crash between the two loses none, but may duplicate one. */
typedef int registry_tell(void *arg, const char *event, size_t len, struct err *err);
/* Calls TELL for all that wait, from any process, the oldest first, until it fails. */
int registry_tell_notes(struct registry *r, registry_tell *tell, void *arg, struct err *err);

/* ---- differences: registry_diff.c ---- */

/* The differences: [{"path":"/files/a.py","from":...,"to":...}, ...].  An added member has no
 * "from", a removed one no "to".  The caller owns *ret_diff. */
int registry_diff(json_t *from, json_t *to, json_t **ret_diff, struct err *err);

/* ---- blobs: registry_blob.c ---- */

/* Stores the data of FD from its current offset, or DATA; on the disk when this returns.  -EFBIG
 * beyond MAX bytes. */
int registry_put_blob_fd(struct registry *r, int fd, uint64_t max, char ret_hash[HASH_NAME + 1],
                         uint64_t *ret_size, struct err *err);
int registry_put_blob(struct registry *r, const void *data, size_t len,
                      char ret_hash[HASH_NAME + 1], struct err *err);

#define REGISTRY_STAGED_MAX 16384

/* Like registry_put_blob_fd(), or with FD -1 registry_put_blob(), for many blobs.  They are on the
 * disk, and under their names, after registry_settle_staged(), which registry_put() calls. */
int registry_stage_blob(struct registry *r, int fd, const void *data, uint64_t max,
                        char ret_hash[HASH_NAME + 1], uint64_t *ret_size, struct err *err);
int registry_settle_staged(struct registry *r, struct err *err);
void registry_drop_staged(struct registry *r);

/* Whether it is on this machine. */
bool registry_has_blob(struct registry *r, const char *hash);
/* A descriptor to read it; -ENOENT if there is none. */
int registry_open_blob(struct registry *r, const char *hash, struct err *err);
/* All of it, at most MAX bytes (-EFBIG), NUL-terminated; the caller owns *ret_text. */
int registry_read_blob(struct registry *r, const char *hash, size_t max, char **ret_text,
                       size_t *ret_len, struct err *err);

/* ---- another place: registry_copy.c ---- */

#define REGISTRY_SQLITE "sqlite"
#define REGISTRY_FOLDER "folder"
struct registry_copying {
	/* "postgres://..." or REGISTRY_SQLITE, and "s3://..." or REGISTRY_FOLDER; NULL: stays where it is. */
	const char *store, *blobs;
	void (*show)(const char *what, uint64_t done, uint64_t total);  /* bytes; a TOTAL of 0 is unknown */
};
#define REGISTRY_TABLES 6
struct registry_copied {
	struct {
		const char *table;
		uint64_t rows;
		unsigned char hash[HASH_LEN];   /* of all its rows */
	} tables[REGISTRY_TABLES];
	size_t n_tables;
	uint64_t n_blobs, blob_bytes;
};
/* Copies all rows and blobs to a place that has none, and reads them back.  Nothing is removed here.  -EBUSY: a
 * dispatch is not over.  Sets CLOISTER_BLOBS of this process. */
int registry_copy(struct registry *r, const struct registry_copying *how, struct registry_copied *ret_copied,
                  struct err *err);

/* ---- unused blobs: registry_collect.c ---- */

/* Removes blobs that no version refers to and that MORE does not mark, unless they were put
 * recently.  Blobs that are put at the same time stay. */
#define REGISTRY_UNUSED_MS (24ull * 3600 * 1000)
#define REGISTRY_MARKS_MAX (4 * 1024 * 1024)
struct registry_marks;                  /* opaque */
struct registry_collecting {
	bool dry_run;                   /* only count */
	int (*more)(void *arg, struct registry_marks *marks, struct err *err);
	void *arg;
};
struct registry_collected {
	uint64_t n, bytes;
};
int registry_collect(struct registry *r, const struct registry_collecting *how,
                     struct registry_collected *ret_collected, struct err *err);
/* Marks every "sha256:..." in TEXT. */
int registry_mark_text(struct registry_marks *marks, const char *text, size_t len, struct err *err);

/* ---- trees: registry_tree.c ---- */

/* The folder with the files of the capability VERSION, whose content is CONTENT; created if it does
 * not exist yet.  Every byte is checked against its hash, also in an existing folder: -EUCLEAN if
 * somebody has changed it.  Nothing in it may be written.  The caller owns *ret_path.
 * *ret_since_ns (NULL: not wanted) is a time before the check. */
int registry_tree(struct registry *r, const struct registry_version *version,
                  json_t *content, char **ret_path, uint64_t *ret_since_ns, struct err *err);
/* Whether nothing in the folder of the capability HASH was changed since that time. */
bool registry_tree_is_since(struct registry *r, const char *hash, uint64_t since_ns);
#endif
