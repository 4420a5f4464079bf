/* worker_pack.h - shared by the files that write packs: worker_pack.c collects objects, worker_pack_end.c makes them part of
 * the state. */
#ifndef CLOISTER_WORKER_PACK_H
#define CLOISTER_WORKER_PACK_H
#define ZLIB_CONST
#include <git2/sys/odb_backend.h>
#include <zlib.h>

#include "proc/state/state_proc.h"

#define PACK_FOLDER WORKER_OBJECTS "/pack"
#define PACK_TEMPORARY "tmp_cloister_"
/* Git takes any file for a pack whose name ends in ".idx". */
#define PACK_END "-pack"
#define PACK_INDEX_END "-index"
#define PACK_HEADER 12                  /* bytes before the first object */
#define PACK_NAME_MAX 64                /* with a NUL: "pack-" and 40 digits */
#define PACK_PIECE 65536

struct packed {
	git_oid id;
	git_object_t type;
	uint32_t crc;
	uint64_t at, size;              /* where it is, and its bytes when it is inflated */
	unsigned char sum[HASH_LEN];    /* of a file */
};

struct pack {
	git_odb_backend backend;        /* first: libgit2 frees it */
	char name[sizeof(PACK_TEMPORARY) + 16];
	char kept[PACK_NAME_MAX];       /* the name of the last that was kept */
	int fd;                         /* the file; 0: everything is in memory */
	uint64_t written;               /* bytes in the file */
	struct buf held;                /* those behind them */
	struct packed *all;
	uint32_t n, cap;
	uint32_t *slots;                /* of a hash table: an index of ALL and 1, or 0 */
	uint32_t n_slots;
	z_stream deflate;
	bool deflates, cleaned;
	git_odb *large;                 /* loose objects in a folder of their own; NULL: none yet */
};

/* Chooses a name, and removes what a crash left.  Called with the state's lock. */
int worker_pack_begin(struct pack *p, struct err *err);
/* A file of that name, for the pack or (END) something else. */
int worker_pack_create(const struct pack *p, const char *end, struct err *err);
/* All bytes are in the file then. */
int worker_pack_flush(struct pack *p, struct err *err);
/* Add an object, unless it is there. */
int worker_pack_put(struct pack *p, const git_oid *id, const void *data, size_t len, git_object_t type, struct err *err);
/* NULL: it is not in it. */
const struct packed *worker_pack_find(const struct pack *p, const git_oid *id);
/* Empty again.  Files stay where they are. */
void worker_pack_reset(struct pack *p);
#endif
