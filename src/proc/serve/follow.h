/* follow.h - streams growing files of lines to clients: as server-sent events, or one JSON object
 * per line.
 *
 * A line is a JSON object with an increasing number `n`, which is the event's id.  So a client that
 * lost its connection gets what it missed (Last-Event-ID).  Nothing is read before the client takes
 * it. */
#ifndef CLOISTER_FOLLOW_H
#define CLOISTER_FOLLOW_H
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct err;
struct follow;                          /* opaque */
struct loop;
struct serve_request;

#define FOLLOW_LINE_MAX (1u << 20)      /* a longer line is skipped */
#define FOLLOW_PING_MS 15000            /* a comment that shows both sides that the other is there */
#define FOLLOW_TYPES_MAX 256
#define FOLLOW_LOOK_MS 500              /* between checks whether the source still lives */

/* The source of the lines: NAME in the folder DIR, and before it NAME.1, NAME.2 ... */
struct follow_source {
	int dir;                        /* owned by the source */
	char name[64];
	uint64_t after;                 /* lines up to this number are skipped */
	uint64_t limit;                 /* maximum of lines; 0: none */
	bool follow;                    /* wait for more at the end */
	bool sse;                       /* else JSON lines */
	char types[FOLLOW_TYPES_MAX];   /* only records of these, separated by commas; "": all */
	const char *key;                /* the member with the event's name; NULL: no name */
	const char *last;               /* the final event; NULL: there is none */
	bool (*is_live)(int dir);       /* NULL: for ever, or until LAST */
	/* private */
	int fd;
	uint64_t segment;               /* UINT64_MAX: the newest */
	char *data;
	size_t len, at, cap;
	bool skipping;
};
/* The source owns DIR, also on failure. */
struct follow_source *follow_source_new(int dir, const char *name);
void follow_source_free(struct follow_source *s);       /* NULL is fine */

int follow_new(struct loop *loop, struct follow **ret_follow, struct err *err);
void follow_free(struct follow *f);                     /* NULL is fine; no stream is left */
/* Answers Q with the lines of SOURCE, of which it takes ownership, to its end. */
void follow_begin(struct follow *f, struct serve_request *q, struct follow_source *source);

/* Sends LINE, an object with the number N and the name NAME (NULL: none), as an event or as a line.  As
 * serve_send(). */
bool follow_send_line(struct serve_request *q, bool sse, uint64_t n, const char *name, const char *line, size_t len);

/* ---- lines (follow_lines.c) ---- */

/* 1 and the next line, valid until the next call; 0: none yet; -errno. */
int follow_next_line(struct follow_source *s, const char **ret_line, size_t *ret_len);
#endif
