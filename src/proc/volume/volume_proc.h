/* volume_proc.h - shared by the files of cloister-volume. */
#ifndef CLOISTER_VOLUME_PROC_H
#define CLOISTER_VOLUME_PROC_H
#include "base/args.h"
#include "base/err.h"
#include "volume/volume.h"

/* One verb; ARGS->words[0] is its name. */
typedef int volume_command(struct volumes *v, const struct args *args, struct err *err);
volume_command cmd_create, cmd_list, cmd_show, cmd_clone, cmd_snapshot, cmd_restore, cmd_remove, cmd_prune;
/* Makes the changes of cells that have ended part of NAME, and records that. */
int volume_do_settle(struct volumes *v, const char *name, struct err *err);
#endif
