/* reader.h - reads a timeline line by line, from its oldest file to its newest. */
#ifndef CLOISTER_AUDIT_READER_H
#define CLOISTER_AUDIT_READER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/log.h"

struct err;

struct audit_reader {
	int dir, fd;                    /* DIR is borrowed */
	int newest;                     /* opened first, so that a rotation meanwhile loses nothing */
	char name[AUDIT_NAME_MAX];
	uint32_t next, last;            /* older files still to read; 0: none */
	bool at_newest, is_newest_odd;  /* IS_NEWEST_ODD: it could not be opened */
	/* position of the last line: */
	char file[AUDIT_NAME_MAX + 12];
	uint64_t line;
	uint64_t torn;                  /* at the end: bytes without a newline, in .file */
	uint64_t bytes, total;          /* read so far; size of all files when it was opened */
	char *data;
	size_t at, len, taken;          /* TAKEN: length of the last line, with its newline */
	bool file_ended;
};

/* -ENOENT: no such timeline. */
int audit_reader_open(struct audit_reader *ret_reader, int dir, const char *name,
                      struct err *err);
void audit_reader_close(struct audit_reader *r);        /* for OWN() too; {0} is fine */
/* 1: a line, without its newline, valid until the next call; 0: there are no more, but see .torn.
 * Negative: .file cannot be read, or is no regular file; the next call continues after it. */
int audit_reader_next(struct audit_reader *r, const char **ret_line, size_t *ret_len,
                      struct err *err);
/* The next line that can be read; false: there are no more.  ERR, which is empty before, gets the
 * first failure; half a line at the end of an older file counts as one, too. */
bool audit_reader_any(struct audit_reader *r, const char **ret_line, size_t *ret_len, struct err *err);
/* Makes the last line come once more; only directly after audit_reader_next(). */
void audit_reader_back(struct audit_reader *r);
#endif
