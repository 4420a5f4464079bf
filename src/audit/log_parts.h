/* log_parts.h - shared by the files of log. */
#ifndef CLOISTER_AUDIT_LOG_PARTS_H
#define CLOISTER_AUDIT_LOG_PARTS_H

#include <stddef.h>

#include "audit/log.h"

struct err;

/* log_resume.c: finds the end of the timeline.  Cuts off an incomplete line. */
int audit_log_resume(struct audit_log *log, struct err *err);

/* log_copy.c: a copy of the last lines, which reaches the disk before the timeline does.
 *
 * NAME.sync begins with a line that has the offset of its lines in the newest file.  Lines from an
 * earlier time may follow, and then zeros.  A line that does not chain to the one before it is not
 * part of the copy. */
#define AUDIT_COPY_SIZE (512 * 1024)
#define AUDIT_COPY_PLACE 24             /* of the first line */

void audit_copy_name(char ret_name[AUDIT_NAME_MAX + 12], const char *name);
/* LINES are being written to the timeline, at its .size. */
void audit_copy_add(struct audit_log *log, const void *lines, size_t len);
/* Call these before and after the newest file is renamed: from then on the copy does not belong to it. */
void audit_copy_turns_over(struct audit_log *log);
void audit_copy_turned_over(struct audit_log *log);
/* The timeline is on the disk: removes the copy. */
void audit_copy_close(struct audit_log *log);
#endif
