/* swap.h - finds known values in a stream, in any common encoding, and replaces them: placeholders
 * in requests, real values in responses.
 *
 * Pure: bytes in, bytes out.  The values are needles, gathered in a set that is made once for a
 * cell and direction.  A needle is found in these forms:
 *
 * - as it is
 * - with any of its bytes escaped as in URLs (%73) or JSON (\u0073, \/, \n)
 * - with "+" for each of its blanks
 * - with SWAP_CODED, also in hex (one case), and inside longer base64 or base64url, at any offset
 *   and escaped or not
 * - with SWAP_ECHOED, also in the forms in which servers show a text
 *
 * A needle is not found if it is escaped twice, nor across the line ends of base64.  If several
 * needles begin at one place, the longest is found.
 *
 * Memory use is constant: a stream keeps only a possible beginning of a needle. */
#ifndef CLOISTER_SWAP_H
#define CLOISTER_SWAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"
#include "http/http_head.h"

struct err;
struct sign_memory;

#define SWAP_NEEDLES_MAX 2048
#define SWAP_NEEDLE_MIN 8               /* shorter ones would match by accident */
#define SWAP_NEEDLE_MAX (64 * 1024)
#define SWAP_GONE_MAX 4                 /* bytes of a needle's beginning that may be released */
#define SWAP_NEAR 4                     /* bytes after the common prefix of FIND and WITH: a text with these
                                         * may be a guess */
#define SWAP_STEADY 1024                /* bytes always held back with STEADY */

/* ---- sets ---- */

struct swap_set;                        /* opaque, immutable: any number of streams use it */

/* FIND becomes WITH.  Needles and their texts are borrowed as long as the set exists: keys are kept
 * in one place only, and wiped there. */
struct swap_needle {
	struct http_text find, with;
};

#define SWAP_CODED 1u                   /* also in base64 and hex */
#define SWAP_ECHOED 2u                  /* also as servers write what they were sent: in HTML, \x73, \163,
                                         * quoted-printable, all letters in one case, and if it is ASCII in
                                         * UTF-16 */

/* If needles have the same FIND, the first counts.  The caller owns *ret_set. */
int swap_set_new(const struct swap_needle *needles, size_t n, unsigned flags,
                 struct swap_set **ret_set, struct err *err);
void swap_set_free(struct swap_set *set);       /* NULL is fine */
OWN_BY(swap_set_freep, struct swap_set *, swap_set_free)

/* ---- matches ---- */

/* Where a needle was found.  The place also defines how its replacement is written. */
enum swap_place {
	SWAP_HEADER,                    /* a field's value, also a trailer's */
	SWAP_NAME,                      /* a field's name, in any case: replacing it means removing the
	                                 * field */
	SWAP_HOST,                      /* reported, never replaced */
	SWAP_BASIC_USER, SWAP_BASIC_PASSWORD,   /* inside `authorization: Basic` */
	SWAP_PATH, SWAP_QUERY,
	SWAP_BODY,                      /* of a type that needs no special treatment */
	SWAP_BODY_FORM, SWAP_BODY_JSON,
	SWAP_MESSAGE,                   /* of a WebSocket */
};

enum swap_form {
	SWAP_RAW, SWAP_PLUS, SWAP_HEX, SWAP_HEX_UPPER, SWAP_BASE64, SWAP_BASE64URL, SWAP_UPPER, SWAP_LOWER, SWAP_UTF16,
};

struct swap_seen {
	size_t needle;                  /* its index in the set */
	enum swap_place place;
	struct http_text name;          /* of the field, with SWAP_HEADER and SWAP_NAME */
	uint64_t at;                    /* offset in the stream, or in the text */
	size_t len;                     /* as it is written there */
	enum swap_form form;
	bool percent, json;             /* some of it is escaped in this way */
};

enum swap_verdict {
	SWAP_LEAVE,                     /* it passes unchanged */
	SWAP_REPLACE,
	SWAP_STOP,                      /* nothing more is passed on: -EACCES */
};

/* Called for each match, in order. */
typedef enum swap_verdict swap_judge(void *arg, const struct swap_seen *seen);
/* Takes bytes that may go on, which are valid only during the call.  A negative return value ends
 * the search. */
typedef int swap_sink(void *arg, const unsigned char *data, size_t len);

/* How replacements may change the length. */
enum swap_lengths {
	SWAP_ANY_LENGTH,
	SWAP_SAME_LENGTH,               /* a length was declared: a change is -EMSGSIZE.  Escapes are added
	                                 * or removed where that helps */
	SWAP_FIT_LENGTH,                /* the same, but the replacement is cut or padded with "x" instead:
	                                 * for scrubbing, which never fails */
};

/* The place for a body of this Content-Type. */
enum swap_place swap_body_place(struct http_text type);

/* ---- streams ---- */

/* One candidate, as far as it was followed.  There are several, because each of "%", "\", "&" and
 * "=" may begin an escape or be part of the needle. */
#define SWAP_WALKS 16
struct swap_walk {
	size_t pos;                     /* bytes after its start */
	uint32_t lo, end;               /* range of patterns that begin with these bytes */
	uint32_t depth;                 /* their number, after undoing escapes */
	uint32_t best;                  /* the longest pattern that matched so far */
	size_t best_pos;                /* 0: none yet */
	uint8_t escapes, best_escapes;  /* enum swap_escape: the kinds that occurred */
};

struct swap_stream {
	const struct swap_set *set;
	enum swap_place place;
	enum swap_lengths lengths;
	swap_judge *judge;
	swap_sink *sink;
	void *arg;                      /* for all three */
	/* Holding bytes back reveals that a needle begins with them, so someone could find a needle
	 * out byte by byte.  MISSED is called if SWAP_NEAR or more bytes of a needle were held
	 * back, and it was no needle, or nobody waited for the rest.  While *STEADY is set, a
	 * constant number of bytes is held back.  Either may be NULL. */
	void (*missed)(void *arg);
	const bool *steady;
	struct http_text name;          /* of the field */

	/* Results. */
	uint64_t n_seen, n_replaced;
	int64_t grown;                  /* bytes sent minus bytes received */
	bool replacing;                 /* the sink now gets a replacement, or a match that was left */

	/* private: */
	unsigned char *held;            /* a possible beginning of a needle */
	size_t n_held, cap, gone;       /* GONE: bytes of it that were already passed on */
	uint64_t before;                /* bytes that came before HELD */
	bool is_walking, is_near;       /* IS_NEAR: long enough for MISSED */
	size_t start;                   /* in HELD, of the current candidates: */
	struct swap_walk walk[SWAP_WALKS];
};

/* The caller sets the members up to NAME; the rest is zero.  DATA is not changed; the sink gets
 * pieces of it. */
int swap_feed(struct swap_stream *s, const void *data, size_t len, struct err *err);
/* The stream has ended. */
int swap_finish(struct swap_stream *s, struct err *err);
/* The receiver waits for the bytes held back: up to SWAP_GONE_MAX of them are passed on.  If a
 * needle begins there, only its rest is replaced.  SWAP_FIT_LENGTH only. */
int swap_let_go(struct swap_stream *s);
void swap_free(struct swap_stream *s);  /* wipes the bytes held; at any time, also twice */

/* ---- heads ---- */

/* Search all of HEAD: host, path, query, names and values of fields; in a response only the fields.
 * Replacements are written to M, and HEAD points there.  M then holds real values, so its owner
 * wipes it.  -E2BIG: M is full.  The caller checks HEAD again (http_head_check): a real value may
 * be invalid in a head. */
struct swap_heads {
	const struct swap_set *set;
	enum swap_lengths lengths;
	swap_judge *judge;
	void *arg;
};
int swap_head(const struct swap_heads *how, struct http_head *head, struct sign_memory *m,
              struct err *err);
/* As swap_head(), for fields alone: trailers.  *N becomes the number of fields left. */
int swap_fields(const struct swap_heads *how, struct http_field *fields, size_t *n, struct sign_memory *m,
                struct err *err);

/* Ask for a response that can be searched: no content coding, no WebSocket extension.  -E2BIG:
 * there is no room for the field. */
int swap_ask_plain(struct http_head *head, struct err *err);
/* Whether HEAD has neither a content coding nor a WebSocket extension. */
bool swap_is_plain(const struct http_head *head);
#endif
