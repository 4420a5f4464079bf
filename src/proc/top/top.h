/* top.h - cloister-top: the cells and what waits for an answer, on a terminal.
 *
 * One thread looks at the cells a few times a second, over their control sockets and in their
 * timelines, and draws what it found; no service is needed.  All text of agents is made safe before
 * it is drawn. */
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
#define TOP_TEXT 1024                   /* of one text, safe and cut */
#define TOP_SHAPE 4096                  /* of what a body or query looks like, in lines */
#define TOP_READ_MAX (4u << 20)         /* bytes of a timeline at a look */
#define TOP_LOOK_MS 500
#define TOP_HUNG_MS 30000               /* a cell that does not answer is left alone for so long */
#define TOP_EYE_MS 350                  /* no key answers what has been in view for less */
#define TOP_SURE_MS 5000                /* for the second press */
#define TOP_FOR_MS (10 * 60 * 1000)

struct top_cell {
	struct cell_entry entry;
	bool seen, answers, has_policy;
	uint64_t hung_until_ms;
	uint32_t state;                 /* enum control_state */
	uint64_t started_ns, memory, pids;
	char command[TOP_TEXT], principal[TOP_TEXT];
	struct audit_tally sum;
	uint64_t inode, at;             /* how far its timeline was read */
	uint64_t change;                /* of approvals, that was seen last */
	struct cell_budgets *budgets;   /* NULL: there are none, or they are not known */
	bool asked_budgets;
};

struct top_asked {
	char id[64], cell[CELL_ID_LEN + 1];
	uint64_t number;
	bool pending;
	int64_t until_s;                /* 0: not known */
	char since[40];                 /* as records have it */
	char what[TOP_TEXT], who[TOP_TEXT], reason[TOP_TEXT], rule[TOP_TEXT], body[TOP_TEXT],
	     secrets[TOP_TEXT], approvers[TOP_TEXT], shape[TOP_SHAPE], query[TOP_SHAPE],
	     headers[TOP_SHAPE];
};

enum top_pane { TOP_CELLS, TOP_ASKED };

struct top {
	struct top_cell *cells;         /* by their start */
	size_t n_cells;
	struct top_asked *asked;        /* the oldest first */
	size_t n_asked;
	enum top_pane pane;
	char cell[CELL_ID_LEN + 1];     /* what is chosen, by id: rows come and go */
	char approval[64];
	uint64_t chosen_ms;             /* since when the approval is */
	char armed;                     /* a key that wants a second press, and until when */
	uint64_t armed_until_ms;
	char said[TOP_TEXT];            /* what was done, or why not */
	bool said_bad, help, quit, colour;
	char *reason;                   /* being typed: why it is refused; NULL: nothing is */
	size_t first_cell;              /* of the list, in view */
};

uint64_t top_now_ms(void);
/* TEXT made safe for the terminal, and cut to SIZE; with LINES it may have several. */
void top_safe_lines(char *ret_text, size_t size, const char *text, bool lines);
void top_safe(char ret_text[TOP_TEXT], const char *text);
void top_say(struct top *t, bool bad, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- top_look.c ---- */

int top_look(struct top *t, struct err *err);
void top_forget(struct top *t);
struct top_cell *top_find_cell(const struct top *t, const char *id);

/* ---- top_asked.c ---- */

/* Looked at cell by cell, they come in any order. */
void top_sort_asked(struct top *t);

/* What CELL asks for now.  RUNTIME is the runtime folder. */
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
/* A key, or ERR when MS are over. */
int top_key(unsigned ms);

/* ---- top_keys.c ---- */

void top_press(struct top *t, int key);
#endif
