/* top.h - cloister-top: shows the cells and waiting approvals on a terminal.
 *
 * One thread looks at the cells a few times a second, through their control sockets and timelines,
 * and draws the result; no service is needed.  All text of agents is made safe before it is drawn. */
#ifndef CLOISTER_TOP_H
#define CLOISTER_TOP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/tally.h"
#include "base/err.h"
#include "cell/cell_budget.h"
#include "cell/cell_control.h"

#define TOP_CELLS_MAX CELL_SLOTS
#define TOP_ASKED_MAX 256               /* approvals that are shown; others wait behind these */
#define TOP_TEXT 1024                   /* of one text, safe and truncated */
#define TOP_SHAPE 4096                  /* of the shape of a body or query, in lines */
#define TOP_READ_MAX (4u << 20)         /* bytes of a timeline per look */
#define TOP_LOOK_MS 500
#define TOP_HUNG_MS 30000               /* how long a cell that does not answer is left alone */
#define TOP_EYE_MS 350                  /* keys do not answer an approval that was in view for less */
#define TOP_SURE_MS 5000                /* for the second press */
#define TOP_FOR_MS (10 * 60 * 1000)

struct top_cell {
	struct cell_entry entry;
	bool seen, answers, has_policy;
	int64_t hung_until_ms;
	uint32_t state;                 /* enum control_state */
	uint32_t waiting;               /* requests that wait for approval */
	uint64_t started_ns, memory, pids;
	struct cell_use use;
	int64_t asked_ms;               /* when USE was asked for; 0: never */
	uint32_t init;                  /* its pid; 0: not known */
	char machine[CELL_MACHINE_MAX + 1];     /* "": this one */
	/* By its processes, see top_procs.c. */
	uint64_t ticks, found, found_ticks, found_bytes;
	int64_t measured_ms;            /* 0: never */
	double cpu_percent;             /* of one processor */
	bool has_cpu;
	char command[TOP_TEXT], principal[TOP_TEXT];
	struct audit_tally sum;
	uint64_t inode, at;             /* position in its timeline */
	uint64_t change;                /* the last change of approvals that was seen */
	struct cell_budgets *budgets;   /* NULL: none, or not known */
	bool asked_budgets;
};

struct top_asked {
	char id[64], cell[CELL_ID_LEN + 1], name[CELL_NAME_MAX + 1];
	uint64_t number;
	bool pending;
	int64_t until_s;                /* 0: not known */
	char since[40];                 /* in the format of records */
	char what[TOP_TEXT], who[TOP_TEXT], reason[TOP_TEXT], rule[TOP_TEXT], body[TOP_TEXT],
	     secrets[TOP_TEXT], approvers[TOP_TEXT], shape[TOP_SHAPE], query[TOP_SHAPE],
	     headers[TOP_SHAPE];
};

/* An event of a cell, safe to be drawn. */
struct top_event {
	char time[12], type[16], verdict[8], what[TOP_TEXT], why[TOP_TEXT];
};

enum top_pane { TOP_CELLS, TOP_ASKED };
enum top_sort { TOP_BY_AGE, TOP_BY_NAME, TOP_BY_CPU, TOP_BY_MEMORY, TOP_BY_REQUESTS, TOP_BY_REFUSED, TOP_SORTS };
#define TOP_FILTER_MAX 64

struct top {
	struct top_cell *cells;         /* sorted; those that the filter leaves out come last */
	size_t n_cells, n_shown;
	enum top_sort sort;
	char filter[TOP_FILTER_MAX];    /* in lower case; "": all are shown */
	bool filters;                   /* it is being typed */
	bool inside;                    /* the view of the chosen cell */
	struct top_asked *asked;        /* the oldest first */
	size_t n_asked;
	enum top_pane pane;
	char cell[CELL_ID_LEN + 1];     /* the selection, by id: rows come and go */
	char approval[64];
	int64_t chosen_ms;              /* when the approval was selected */
	char armed;                     /* a key that needs a second press, and until when */
	int64_t armed_until_ms;
	char said[TOP_TEXT];            /* the last result or error */
	bool said_bad, help, quit, colour;
	char *reason;                   /* the reason for a refusal while it is typed; else NULL */
	size_t first_cell;              /* first visible row of the list */
};

/* Makes TEXT safe for the terminal, and cuts it to SIZE; with LINES it may have several lines. */
void top_safe_lines(char *ret_text, size_t size, const char *text, bool lines);
void top_safe(char ret_text[TOP_TEXT], const char *text);
void top_say(struct top *t, bool bad, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- top_look.c ---- */

int top_look(struct top *t, struct err *err);
void top_forget(struct top *t);
struct top_cell *top_find_cell(const struct top *t, const char *id);
/* Sorts and filters the cells again. */
void top_sort_cells(struct top *t);

/* ---- top_procs.c ---- */

/* The processor time of each cell since the last call, and its memory if that is not known. */
void top_look_procs(struct top *t);

/* ---- top_cell.c ---- */

#define TOP_EVENTS_MAX 128
/* The newest events of CELL, at most MAX; returns their number. */
size_t top_events(const struct top_cell *cell, struct top_event *ret_events, size_t max);

/* ---- top_asked.c ---- */

/* Sorts them: they are collected cell by cell. */
void top_sort_asked(struct top *t);

/* Updates the approvals of CELL.  RUNTIME is the runtime folder. */
void top_look_asked(struct top *t, int runtime, struct top_cell *cell);
/* A cell has ended: nothing of it waits. */
void top_drop_asked(struct top *t, const char *cell);
struct top_asked *top_chosen_asked(const struct top *t);
/* MS: 0 for once.  REASON: not NULL to refuse. */
int top_answer(struct top *t, const struct top_asked *asked, uint64_t ms, const char *reason,
               struct err *err);

/* ---- top_screen.c ---- */

int top_screen_open(struct top *t, struct err *err);
void top_screen_close(void);
void top_draw(struct top *t);
/* A key, or ERR after MS. */
int top_key(unsigned ms);

/* ---- top_keys.c ---- */

void top_press(struct top *t, int key);
#endif
