/* check.h - verifies a timeline on disk, all its files, and reports where it is not sound. */
#ifndef CLOISTER_AUDIT_CHECK_H
#define CLOISTER_AUDIT_CHECK_H
#include <stdbool.h>
#include <stdint.h>

#include "audit/log.h"
#include "audit/verify.h"

struct audit_reader;
struct err;

struct audit_check {
	/* input: .verify's .timeline, .key and .anchor, and */
	bool may_be_torn;               /* its writer may have crashed, or be writing right now */
	/* Called for each record that is sound so far; a negative errno ends the check.  May be NULL. */
	int (*note)(void *arg, const struct audit_record *record, const char *line, size_t len);
	/* Called now and then: DONE of TOTAL bytes are checked.  May be NULL. */
	void (*progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	/* result: */
	struct audit_verify verify;     /* .fault is AUDIT_SOUND if all is well */
	char file[AUDIT_NAME_MAX + 12]; /* where the fault is */
	uint64_t line;                  /* in FILE; 0: in none */
	uint64_t torn;                  /* bytes of an incomplete last line */
};
/* 0 whatever was found; -ENOENT: no such timeline; other negative: it could not be read. */
int audit_check_run(struct audit_check *check, int dir, const char *name, struct err *err);
/* The same for the next of the timelines that R reads, which are exported one after the other.  1:
 * another one follows. */
int audit_check_next(struct audit_check *check, struct audit_reader *r, struct err *err);
/* Adds a fault of FILE as a whole; an earlier fault takes precedence. */
void audit_check_fault(struct audit_check *check, enum audit_fault fault, const char *file,
                       const char *text);
#endif
