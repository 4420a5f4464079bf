/* follow.h - files of lines that grow, to clients: as server-sent events, or a JSON object a line.
 *
 * A line is a JSON object with a number `n` that counts up; that is the event's id, so that a
 * client that lost its connection gets what it missed (Last-Event-ID).  Nothing is read that the
 * client does not take. */
#ifndef CLOISTER_FOLLOW_H
#define CLOISTER_FOLLOW_H
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct err;
struct follow;                          /* opaque */
struct loop;
struct serve_request;

#define FOLLOW_LINE_MAX (1u << 20)      /* a longer line is left out */
#define FOLLOW_PING_MS 15000            /* a comment, so that both sides see that the other is there */
#define FOLLOW_LOOK_MS 500              /* whether what is followed still lives */

/* Where lines come from: NAME in the folder DIR, and before it NAME.1, NAME.2 ... */
struct follow_source {
	int dir;                        /* the source's own */
	char name[64];
	uint64_t after;                 /* lines up to this number are left out */
	uint64_t limit;                 /* how many lines at most; 0: no such end */
	bool follow;                    /* go on when all that there is was told */
	bool sse;                       /* else JSON lines */
	const char *key;                /* the member that the event's name is in; NULL: it has none */
	const char *last;               /* the event after which there is none; NULL: none is */
	bool (*is_live)(int dir);       /* NULL: for ever, or until LAST */
	/* private */
	int fd;
	uint64_t segment;               /* UINT64_MAX: the newest */
	char *data;
	size_t len, at, cap;
	bool skipping;
};
/* DIR becomes the source's, also on failure. */
struct follow_source *follow_source_new(int dir, const char *name);
void follow_source_free(struct follow_source *s);       /* NULL is fine */

int follow_new(struct loop *loop, struct follow **ret_follow, struct err *err);
void follow_free(struct follow *f);                     /* NULL is fine; no stream is left */
/* Answers Q with what SOURCE (taken over) gives, to its end. */
void follow_begin(struct follow *f, struct serve_request *q, struct follow_source *source);

/* ---- lines (follow_lines.c) ---- */

/* 1 and the next line, until the next call; 0: none as yet; -errno. */
int follow_next_line(struct follow_source *s, const char **ret_line, size_t *ret_len);
#endif
