/* swap.h - finds known values in what passes by, however they are written, and puts others
 * in their place: placeholders on their way out, real values on their way in.
 *
 * Pure: bytes in, bytes out.  What is looked for are needles, gathered in a set that is
 * made once for a cell and direction.  A needle is found as it is, with any of its bytes
 * escaped as in URLs (%73) or JSON (\u0073, \/, \n), with "+" for each of its blanks, and
 * with SWAP_CODED also in hex (one case) and inside longer base64 or base64url, wherever
 * it begins there and escaped or not.  SWAP_ECHOED adds what servers make of a text that they
 * show.  A needle is not found if it is escaped twice, nor across the line ends of base64.  Of needles that begin at one place the longest is the one that is found.
 *
 * Memory is flat: a stream keeps what may be the beginning of a needle, and nothing else. */
#ifndef CLOISTER_SWAP_H
#define CLOISTER_SWAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/http_head.h"

struct err;
struct sign_memory;

#define SWAP_NEEDLES_MAX 2048
#define SWAP_NEEDLE_MIN 8               /* shorter ones are found where they are not meant */
#define SWAP_NEEDLE_MAX (64 * 1024)
#define SWAP_GONE_MAX 4                 /* of a needle's beginning, that may be let go */
#define SWAP_NEAR 4                     /* bytes behind what FIND and WITH begin with alike: who meets
                                         * those may have guessed them */
#define SWAP_STEADY 1024                /* held back with STEADY, whatever it is */

/* ---- sets ---- */

struct swap_set;                        /* opaque, immutable: any number of streams use it */

/* FIND is to become WITH.  Needles and their texts are borrowed as long as the set is there:
 * keys are kept in one place only, and wiped there. */
struct swap_needle {
	struct http_text find, with;
};

#define SWAP_CODED 1u                   /* in base64 and hex, too */
#define SWAP_ECHOED 2u                  /* as servers write what they were sent, too: in HTML,
                                         * \x73, \163, quoted-printable, all letters in one case,
                                         * and if it is ASCII in UTF-16 */

/* Of needles with the same FIND the first counts.  The caller owns *ret_set. */
int swap_set_new(const struct swap_needle *needles, size_t n, unsigned flags,
                 struct swap_set **ret_set, struct err *err);
void swap_set_free(struct swap_set *set);       /* NULL is fine */
void swap_set_freep(struct swap_set **set);

/* ---- what is seen ---- */

/* Where.  It also says how what is put in has to be written there. */
enum swap_place {
	SWAP_HEADER,                    /* a field's value, also a trailer's */
	SWAP_NAME,                      /* a field's name, in any case: to replace it, the field is left out */
	SWAP_HOST,                      /* told, never replaced */
	SWAP_BASIC_USER, SWAP_BASIC_PASSWORD,   /* inside `authorization: Basic` */
	SWAP_PATH, SWAP_QUERY,
	SWAP_BODY,                      /* of no type that matters here */
	SWAP_BODY_FORM, SWAP_BODY_JSON,
	SWAP_MESSAGE,                   /* of a WebSocket */
};

enum swap_form {
	SWAP_RAW, SWAP_PLUS, SWAP_HEX, SWAP_HEX_UPPER, SWAP_BASE64, SWAP_BASE64URL, SWAP_UPPER, SWAP_LOWER, SWAP_UTF16,
};

struct swap_seen {
	size_t needle;                  /* its index */
	enum swap_place place;
	struct http_text name;          /* of the field, with SWAP_HEADER and SWAP_NAME */
	uint64_t at;                    /* of the stream, or of the text */
	size_t len;                     /* as it is written there */
	enum swap_form form;
	bool percent, json;             /* some of it is escaped so */
};

enum swap_verdict {
	SWAP_LEAVE,                     /* it passes as it is */
	SWAP_REPLACE,
	SWAP_STOP,                      /* nothing of it goes on: -EACCES */
};

/* Called for everything that is found, in order. */
typedef enum swap_verdict swap_judge(void *arg, const struct swap_seen *seen);
/* Takes bytes that may go on, which are there only during the call; a negative return
 * value ends it. */
typedef int swap_sink(void *arg, const unsigned char *data, size_t len);

/* What may become of the length. */
enum swap_lengths {
	SWAP_ANY_LENGTH,
	SWAP_SAME_LENGTH,               /* a length was declared: what would change it is
	                                 * -EMSGSIZE.  Escapes come and go where that helps */
	SWAP_FIT_LENGTH,                /* the same, but what is put in is cut or filled up
	                                 * with "x" instead: to scrub, which never fails */
};

/* The place that a body of this Content-Type is. */
enum swap_place swap_body_place(struct http_text type);

/* ---- streams ---- */

/* One candidate, as far as it has been followed.  There are several, because each of "%", "\", "&"
 * and "=" may begin an escape or be a part of the needle. */
#define SWAP_WALKS 16
struct swap_walk {
	size_t pos;                     /* behind its start */
	uint32_t lo, end;               /* patterns that begin with what was read */
	uint32_t depth;                 /* how much that is, escapes undone */
	uint32_t best;                  /* the longest that was all there */
	size_t best_pos;                /* 0: none yet */
	uint8_t escapes, best_escapes;  /* enum swap_escape: of which kinds there were some */
};

struct swap_stream {
	const struct swap_set *set;
	enum swap_place place;
	enum swap_lengths lengths;
	swap_judge *judge;
	swap_sink *sink;
	void *arg;                      /* of all three */
	/* What is held back tells who waits for it that a needle begins so: by trying out one byte after
	 * the other it could be found out.  Either may be NULL.  MISSED is told that the beginning of a
	 * needle, SWAP_NEAR or more of it, was held back and was none after all, or nobody waited for
	 * that; while *STEADY is set, the same is held back whatever comes. */
	void (*missed)(void *arg);
	const bool *steady;
	struct http_text name;          /* of the field */

	/* What came of it. */
	uint64_t n_seen, n_replaced;
	int64_t grown;                  /* how many bytes more went out than came */
	bool replacing;                 /* what the sink is given just now was put in, or was left */

	/* private: */
	unsigned char *held;            /* what may be a needle's beginning */
	size_t n_held, cap, gone;       /* GONE: of it, that went on already */
	uint64_t before;                /* bytes that came before HELD */
	bool is_walking, is_near;       /* IS_NEAR: as far as MISSED wants to know of */
	size_t start;                   /* in HELD, of what is being followed: */
	struct swap_walk walk[SWAP_WALKS];
};

/* The members up to NAME are the caller's to set; the rest is zero.  DATA is not changed;
 * the sink gets pieces of it. */
int swap_feed(struct swap_stream *s, const void *data, size_t len, struct err *err);
/* There is no more. */
int swap_finish(struct swap_stream *s, struct err *err);
/* Somebody waits for what is held back: up to SWAP_GONE_MAX bytes of it go on, and only
 * the rest of a needle that turns out to begin there is replaced.  SWAP_FIT_LENGTH only. */
int swap_let_go(struct swap_stream *s);
void swap_free(struct swap_stream *s);  /* wipes what is held; at any time, also twice */

/* ---- heads ---- */

/* All of HEAD: host, path, query, names and values of fields; in a response the fields
 * alone.  What is replaced is written to M and HEAD points there: real values are in it,
 * so its owner wipes it.  -E2BIG if it is full.  HEAD is to be checked again
 * (http_head_check): a real value may be nothing that a head can carry. */
struct swap_heads {
	const struct swap_set *set;
	enum swap_lengths lengths;
	swap_judge *judge;
	void *arg;
};
int swap_head(const struct swap_heads *how, struct http_head *head, struct sign_memory *m,
              struct err *err);
/* The same for fields alone: trailers.  *N becomes how many are left. */
int swap_fields(const struct swap_heads *how, struct http_field *fields, size_t *n, struct sign_memory *m,
                struct err *err);

/* Ask for an answer in which needles can be seen: no content coding, no WebSocket
 * extension.  -E2BIG if there is no room for the field. */
int swap_ask_plain(struct http_head *head, struct err *err);
/* Whether the body of HEAD is as it was asked for. */
bool swap_is_plain(const struct http_head *head);
#endif
