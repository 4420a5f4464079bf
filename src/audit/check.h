/* check.h - verifies a timeline on disk, all its files, and tells where it is not sound. */
#ifndef CLOISTER_AUDIT_CHECK_H
#define CLOISTER_AUDIT_CHECK_H
#include <stdbool.h>
#include <stdint.h>

#include "audit/log.h"
#include "audit/verify.h"

struct audit_reader;
struct err;

struct audit_check {
	/* given: .verify's .timeline, .key and .anchor, and */
	bool may_be_torn;               /* its writer may have crashed, or be at it right now */
	/* Each record that is sound so far; a negative errno ends it all.  May be NULL. */
	int (*note)(void *arg, const struct audit_record *record, const char *line, size_t len);
	/* Now and then: so much of so many bytes is done.  May be NULL. */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	/* found: */
	struct audit_verify verify;     /* .fault is AUDIT_SOUND if all is well */
	char file[AUDIT_NAME_MAX + 12]; /* where it is not */
	uint64_t line;                  /* in it; 0: in none */
	uint64_t torn;                  /* bytes of a last line that was never ended */
};
/* 0 whatever was found; -ENOENT: there is no such timeline; negative if it could not be gone through. */
int audit_check_run(struct audit_check *check, int dir, const char *name, struct err *err);
/* The same with the next of the timelines that R reads, one behind the other, as they are exported.
 * 1: another comes behind it. */
int audit_check_next(struct audit_check *check, struct audit_reader *r, struct err *err);
/* What else was found, of FILE as a whole; what was found before counts more. */
void audit_check_fault(struct audit_check *check, enum audit_fault fault, const char *file,
                       const char *text);
#endif
