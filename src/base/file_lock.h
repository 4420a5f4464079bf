/* file_lock.h - locks by which one process at a time does something. */
#ifndef CLOISTER_FILE_LOCK_H
#define CLOISTER_FILE_LOCK_H
#include <sys/types.h>

struct err;

/* Lock the file NAME in FOLDER, which is made if it is not there, for as long as this process keeps the descriptor that is
 * returned.  It is a lock of the process, not of the descriptor: a child that is just executing another program has the
 * descriptor too, and may briefly outlive this process.  -EBUSY: *RET_OWNER has it; 0: a process that is not seen from here. */
int file_lock(int folder, const char *name, pid_t *ret_owner, struct err *err);
#endif
