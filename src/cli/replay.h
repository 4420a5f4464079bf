/* replay.h - the parts of `cloister replay`: the output of a cell with its times, and rows of columns. */
#ifndef CLOISTER_CLI_REPLAY_H
#define CLOISTER_CLI_REPLAY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct err;

/* ---- replay_output.c: the kept output of a cell, in pieces ---- */

struct replay_piece {
	uint64_t ms;                    /* when it was written, since 1970; UINT64_MAX: unknown */
	int fd;                         /* borrowed */
	uint64_t from, len;
};
struct replay_output {
	int fds[4];                     /* log.1, log, stdout, stderr; -1: there is none */
	struct replay_piece *pieces;    /* in the order of their times */
	size_t n;
	bool is_kept, has_times;
};
/* DIR is the cell's state entry, or negative. */
int replay_output_open(struct replay_output *out, int dir, struct err *err);
void replay_output_close(struct replay_output *out);    /* for OWN() too */

/* ---- replay_rows.c: lines of one or several columns ---- */

enum replay_column { REPLAY_OUTPUT, REPLAY_PROCESSES, REPLAY_REQUESTS, REPLAY_COLUMNS };
#define REPLAY_WIDE 100                 /* columns of a terminal from which they stand side by side */
#define REPLAY_CELL_MAX 1024            /* bytes of one column of a row */

struct replay_rows {
	FILE *out;
	unsigned width;                 /* of the terminal; 0: it is none */
	bool wide, colour;
	char time[16];                  /* of the row that is open */
	char cells[REPLAY_COLUMNS][REPLAY_CELL_MAX];
	bool open;
};
void replay_rows_head(struct replay_rows *rows);
/* TEXT is made safe here.  A row stays open until a column is needed again, or the time differs. */
void replay_rows_put(struct replay_rows *rows, const char *time, enum replay_column column, const char *text);
void replay_rows_flush(struct replay_rows *rows);
#endif
