/* log_parts.h - between the files of log. */
#ifndef CLOISTER_AUDIT_LOG_PARTS_H
#define CLOISTER_AUDIT_LOG_PARTS_H

#include <stddef.h>

#include "audit/log.h"

struct err;

/* log_resume.c: where the timeline ends.  Cuts a line off that was never ended. */
int audit_log_resume(struct audit_log *log, struct err *err);

/* log_copy.c: a copy of the last lines, which reaches the disk before the timeline does.
 *
 * NAME.sync begins with a line that says where in the newest file its lines belong.  Behind them
 * there may be lines of an earlier time, and then zeros: what does not follow on the line before it
 * is not of it. */
#define AUDIT_COPY_SIZE (512 * 1024)
#define AUDIT_COPY_PLACE 24             /* of the first line */

void audit_copy_name(char ret_name[AUDIT_NAME_MAX + 12], const char *name);
/* These LINES are being written to the timeline, at its .size. */
void audit_copy_add(struct audit_log *log, const void *lines, size_t len);
/* Before and after the newest file gets another name: from then on the copy does not belong to it. */
void audit_copy_turns_over(struct audit_log *log);
void audit_copy_turned_over(struct audit_log *log);
/* The timeline is on the disk, and the copy is gone. */
void audit_copy_close(struct audit_log *log);
#endif
