/* vmcache.h - keeps files that virtual machines start from, in one folder: initramfs files and disks.
 *
 * An entry is two files: NAME, and NAME.sums.  That has hashes of what the entry is made of, and what shows
 * whether the file has changed since; its time is that of the last use.  NAME is a prefix and the hash of all
 * that the file was made from. */
#ifndef CLOISTER_VMCACHE_H
#define CLOISTER_VMCACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "canon/hash.h"

struct err;

#define VMCACHE_FOLDER "vm"             /* of the data folder */
#define VMCACHE_KEEP_DAYS 30
#define VMCACHE_SUMS_MAX 2
#define VMCACHE_PREFIX_MAX 15
#define VMCACHE_NAME_SIZE (VMCACHE_PREFIX_MAX + HASH_HEX + 1)

struct vmcache {
	int dir;                        /* 0: not open */
	const char *prefix;             /* of all entries of this kind */
	size_t n_sums;                  /* of each entry */
	char name[VMCACHE_NAME_SIZE];   /* of the finished file */
	char part[VMCACHE_NAME_SIZE + 8];       /* of the file being written; "": none */
};

typedef unsigned char vmcache_sum[HASH_LEN];

/* PREFIX is borrowed.  HASH is over everything that the entry is made from. */
int vmcache_open(const char *folder, const char *prefix, size_t n_sums, const unsigned char hash[HASH_LEN],
                 struct vmcache *ret_cache, struct err *err);
/* Removes the unfinished file, if there is one. */
void vmcache_close(struct vmcache *c);  /* for OWN() too */
/* Whether the entry is there and unchanged; then it counts as used now. */
bool vmcache_use(const struct vmcache *c, vmcache_sum *ret_sums);
/* A descriptor of a new, empty file, the caller's: nobody else writes this entry meanwhile.  -EAGAIN: somebody
 * else did, so it may be there now. */
int vmcache_begin(struct vmcache *c, struct err *err);
int vmcache_finish(struct vmcache *c, int fd, const vmcache_sum *sums, struct err *err);
/* Removes entries of this kind that nobody has used for VMCACHE_KEEP_DAYS, and all but the MOST that were
 * used last. */
void vmcache_prune(const struct vmcache *c, size_t most);

/* Entries with PREFIX in the folder DIR (-1: none), the last used first; the caller owns *ret_list. */
struct vmcache_entry {
	char hash[HASH_HEX + 1];
	time_t used;
	unsigned long long size;        /* bytes on the disk */
};
int vmcache_list(int dir, const char *prefix, struct vmcache_entry **ret_list, size_t *ret_n, struct err *err);
int vmcache_remove(int dir, const char *prefix, const struct vmcache_entry *entry, struct err *err);
#endif
