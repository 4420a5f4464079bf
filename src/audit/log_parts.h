/* log_parts.h - between the files of log. */
#ifndef CLOISTER_AUDIT_LOG_PARTS_H
#define CLOISTER_AUDIT_LOG_PARTS_H

struct audit_log;
struct err;

/* log_resume.c: where the timeline ends.  Cuts a line off that was never ended. */
int audit_log_resume(struct audit_log *log, struct err *err);
#endif
