/* cache.h - keeps caches of packages in DATA/volumes, beside volumes: versions that are named by the hash of their files.
 *
 *     caches/NAME             the cache's description: canonical JSON, replaced whole
 *     names/.fill-HEX-NAME    the volume that a cell fills
 *
 * A cell fills a volume of its own, which is empty at first.  If its command succeeds, cache_keep() hashes the volume's
 * files and makes them the newest version.  From then on nothing writes to them: a cell that has the cache has an overlay
 * above them, whose changes are thrown away.  So nothing that one cell leaves reaches another.
 *
 * The hash of a version is the SHA-256 over a line for each file, folder and link, with a NUL at its end:
 *
 *     f MODE HEX PATH         MODE: four octal digits.  HEX: SHA-256 of the file's bytes
 *     d MODE - PATH           followed by the folder's entries, in the order of the bytes of their names
 *     l 0777 HEX PATH         HEX: SHA-256 of the link's target */
#ifndef CLOISTER_VOLUME_CACHE_H
#define CLOISTER_VOLUME_CACHE_H
#include "canon/hash.h"
#include "volume/volume.h"

#define CACHE_NAME_MAX 32
#define CACHES_MAX 200
#define CACHE_VERSIONS_MAX 16
#define CACHE_HOSTS_MAX 2047            /* bytes of all names of hosts, with blanks between them */
#define CACHE_COMMAND_MAX 255
#define CACHE_CELL_MAX 31
#define CACHE_HASHED_MAX (UINT64_C(1) << 36)     /* bytes of all files of a version, with holes */
#define CACHE_PREFIX 8                  /* digits that name a version, at least */
#define CACHE_PATH "/cache/"            /* the default: /cache/NAME */
#define CACHE_FOLDER "caches"
#define CACHE_FILL ".fill-"
#define CACHE_VARIABLES_MAX 8

/* A kind of packages, and how its programs come to use the folder. */
enum cache_when { CACHE_ALWAYS, CACHE_FILLING, CACHE_OFFLINE };
struct cache_variable {
	const char *name, *value;
	bool is_path;                   /* VALUE follows the path of the cache */
	enum cache_when when;           /* OFFLINE: only in a cell without a network */
};
struct cache_kind {
	const char *name;
	struct cache_variable variables[CACHE_VARIABLES_MAX];   /* ends with a NULL name */
	const char *folders[5];         /* that its programs do not make; ends with NULL */
	char *(*settings)(const char *path);    /* the text of a file of settings, which is at "PATH.conf"; or NULL */
};
extern const struct cache_kind cache_kinds[];   /* ends with a NULL name */
const struct cache_kind *cache_kind_find(const char *name);
#define CACHE_KINDS "npm, pip, cargo or apt"

struct cache_version {
	char hash[HASH_HEX + 1], tree[VOLUME_ID + 1];
	uint64_t made_ms, bytes, entries;
	/* Who filled it: */
	uint64_t uid;
	char cell[CACHE_CELL_MAX + 1];
	char command[CACHE_COMMAND_MAX + 1];
	char hosts[CACHE_HOSTS_MAX + 1];        /* that the cell reached */
};

struct cache {
	char name[CACHE_NAME_MAX + 1];
	const struct cache_kind *kind;
	uint64_t size, ttl_ms, used_ms;
	char current[HASH_HEX + 1];     /* the hash of the version that cells get */
	struct cache_version versions[CACHE_VERSIONS_MAX];      /* the oldest first */
	size_t n;
};

bool cache_name_ok(const char *name);
/* -ENOENT if there is none of that name. */
int cache_load(const struct volumes *v, const char *name, struct cache *ret_cache, struct err *err);
/* The names of all, sorted; the caller frees the list (strv_free). */
int cache_list(const struct volumes *v, char ***ret_names, struct err *err);
/* PREFIX: the first digits of its hash, or "" for the current version. */
int cache_find(const struct cache *cache, const char *prefix, const struct cache_version **ret_version, struct err *err);
bool cache_version_is_used(const struct volumes *v, const struct cache_version *version);
bool cache_is_used(const struct volumes *v, const struct cache *cache);
bool cache_is_over(const struct volumes *v, const struct cache *cache, uint64_t now_ms);

/* ---- filling ---- */

/* Makes a volume to fill, and holds it with V->locks.  SIZE 0: that of the cache, or the default. */
int cache_begin(struct volumes *v, const char *name, const struct cache_kind *kind, uint64_t size,
                char ret_volume[VOLUME_NAME_MAX + 1], struct err *err);
/* Removes it. */
int cache_abandon(struct volumes *v, const char *volume, struct err *err);
struct cache_fill {
	const char *volume, *name;
	const struct cache_kind *kind;
	bool has_ttl;
	uint64_t ttl_ms;
	const char *cell, *command, *hosts;
};
/* Hashes what a cell that has ended left in the volume, and makes it the current version.  The volume goes, also on
 * failure.  The oldest version that is not current goes if there are too many.  *ret_new: it was none of the versions. */
int cache_keep(struct volumes *v, const struct cache_fill *fill, struct cache_version *ret_version, bool *ret_new,
               struct err *err);

/* ---- use ---- */

/* Use the version of NAME that PREFIX means: V->locks holds it.  The caller frees *ret_use, whose .out is NULL: changes
 * are thrown away. */
int cache_take(struct volumes *v, const char *name, const char *prefix, struct volume_use *ret_use,
               struct cache_version *ret_version, struct err *err);
/* Writes TEXT, the settings of a kind, beside the files of USE.  The caller owns *ret_file, its path. */
int cache_put_settings(struct volumes *v, const struct volume_use *use, const char *text, char **ret_file, struct err *err);

/* ---- changes of descriptions ---- */

/* The version becomes the current one. */
int cache_use(struct volumes *v, const char *name, const char *prefix, struct err *err);
/* -EBUSY: a cell uses it.  With OVER, only if its time to live is over: -EAGAIN otherwise. */
int cache_remove(struct volumes *v, const char *name, bool over, struct err *err);
/* -EBUSY: it is the current one, or a cell uses it. */
int cache_remove_version(struct volumes *v, const char *name, const char *prefix, struct err *err);
/* Removes all versions that are not current and that no cell uses, and volumes whose filling was broken off. */
int cache_prune(struct volumes *v, const char *name, uint64_t *ret_removed, struct err *err);
int cache_prune_fills(struct volumes *v, struct err *err);

/* ---- hashes ---- */

/* DIR: an open folder.  -EACCES: a file in it is not readable by its owner. */
int cache_hash(int dir, char ret_hash[HASH_HEX + 1], struct err *err);
/* -EBADMSG: its files are not those that it was made of. */
int cache_verify(const struct volumes *v, const struct cache *cache, const struct cache_version *version, struct err *err);
#endif
