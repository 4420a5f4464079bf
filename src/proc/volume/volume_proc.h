/* volume_proc.h - shared by the files of cloister-volume. */
#ifndef CLOISTER_VOLUME_PROC_H
#define CLOISTER_VOLUME_PROC_H
#include "base/args.h"
#include "base/err.h"
#include "volume/cache.h"
#include "volume/volume.h"

/* One verb; ARGS->words[0] is its name. */
typedef int volume_command(struct volumes *v, const struct args *args, struct err *err);
volume_command cmd_create, cmd_list, cmd_show, cmd_clone, cmd_snapshot, cmd_restore, cmd_remove, cmd_prune;
volume_command cmd_cache_list, cmd_cache_show, cmd_cache_use, cmd_cache_remove, cmd_cache_prune, cmd_cache_verify;
/* Makes the changes of cells that have ended part of NAME, and records that. */
int volume_do_settle(struct volumes *v, const char *name, struct err *err);
/* Makes what a cell filled the newest version of a cache, and records that.  WORDS: the volume, the cache, its kind, its time
 * to live or "", the cell, its command, and the hosts that it reached. */
#define VOLUME_KEEP_WORDS 7
int volume_do_keep(struct volumes *v, char *const *words, struct err *err);
#endif
