/* h1.h - HTTP/1.1, strict: bytes in, heads and body bytes out; no sockets.
 *
 * One reader serves one direction of one connection, message after message.  It
 * refuses whatever two implementations might read differently: bare LF, folded
 * fields, space before the colon, both or several lengths, a coding other than
 * chunked, chunk extensions, a missing or second Host, absolute-form with another
 * Host, NUL anywhere, a version other than 1.0 and 1.1.
 *
 * Answers come from servers that others have to bear, too, and go on in our own words: there a
 * length may be repeated, `transfer-encoding: identity` is none, and blanks and extensions behind
 * the size of a chunk are left out. */
#ifndef CLOISTER_H1_H
#define CLOISTER_H1_H
#include "http/http_head.h"

enum h1_kind { H1_REQUESTS, H1_RESPONSES };

/* What the reader came to. */
enum h1_event {
	H1_MORE,                /* needs more bytes */
	H1_HEAD,                /* reader->head is complete, until the next call */
	H1_BODY,                /* a piece of the body; points into the input */
	H1_END,                 /* the message is complete; trailers in reader->head.fields */
	H1_BAD,                 /* refused; reader->status is the answer (400, 417, 431, 500,
	                         * 501, 505; 502 for a response) and err says why.  The
	                         * reader is dead. */
};

enum h1_form { H1_ORIGIN, H1_ABSOLUTE, H1_AUTHORITY, H1_ASTERISK };

struct h1_reader {
	enum h1_kind kind;
	struct http_head head;
	bool keep_alive;        /* of the message, valid from H1_HEAD */
	bool expects_continue;  /* the request has `expect: 100-continue` (and a body); the
	                         * field stays in the head too */
	bool until_close;       /* the response's body ends with the connection */
	enum h1_form form;      /* how the request's target was written; with H1_ABSOLUTE
	                         * head.scheme is what it said, for the caller to compare */
	uint16_t status;        /* with H1_BAD */
	uint16_t version;       /* 10 or 11 */
	/* private: */
	int state;
	uint64_t left;          /* of the body or chunk */
	size_t line;            /* how much of an unfinished line is in TEXT */
	bool head_only;         /* the response to HEAD, or CONNECT */
	bool skipped_line;      /* the one empty line before a request */
	char *written;          /* the head's path as it was spelled */
	char *text;             /* what the head's other strings point to */
	size_t text_len, text_cap;
	char host[HTTP_HOST_MAX + 1];
};

void h1_reader_init(struct h1_reader *r, enum h1_kind kind);
void h1_reader_free(struct h1_reader *r);
/* Give memory back while the connection is idle; the head is gone.  Does nothing in
 * the middle of a message. */
void h1_reader_rest(struct h1_reader *r);
/* Responses: whether the next one has no body whatever it says (to HEAD). */
void h1_reader_expect(struct h1_reader *r, bool no_body);

/* Look at DATA.  *RET_USED bytes are done with and must not be given again; what is
 * left must, with more behind it.  *RET_PIECE is set with H1_BODY.  Call it until it
 * gives H1_MORE, also with no bytes left: H1_END comes with a call of its own.  Heads
 * that are not complete are kept by the reader, so with H1_MORE all of DATA is used.
 *
 * Each message is H1_HEAD, any number of H1_BODY, H1_END; only the heads of interim
 * responses (1xx, not 101) have no H1_END: the next H1_HEAD belongs to the same
 * message.  A head is copied out, so DATA may be forgotten.  What comes behind a
 * message without keep_alive is swallowed.  What comes behind the H1_END of a request
 * for CONNECT or with head.upgrade, and of a 101, may not be HTTP: do not read on
 * before that is known.
 *
 * The scheme, the port where the authority names none (0), and the host of a request
 * without a Host field (HTTP/1.0: empty) are for the caller to fill in; then the head
 * passes http_head_check().  `CONNECT host:port` gives method CONNECT, host, port,
 * path "". */
enum h1_event h1_read(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
                      struct http_text *ret_piece, struct err *err);
/* The connection has ended: H1_END if that completes the message (until_close),
 * H1_MORE if it lies between messages, else H1_BAD. */
enum h1_event h1_read_eof(struct h1_reader *r, struct err *err);

/* Write a head: request line or status line, Host and the length in their places,
 * `connection: close` unless KEEP_ALIVE; with head->upgrade the upgrade.  A length of
 * HTTP_LENGTH_UNKNOWN becomes chunked, unless PLAIN_BODY (to an HTTP/1.0 client, until
 * close).  NO_BODY: the answer to HEAD, which does not say `chunked`.  TO_HTTP10: a
 * kept connection must be said to be kept.  The head must be canonical, or a CONNECT
 * (host and port). */
struct h1_style { bool keep_alive, plain_body, absolute_form, no_body, to_http10; };
void h1_write_head(struct buf *b, const struct http_head *head, struct h1_style style);
/* Around a piece of a chunked body: returns the length of what is to go before it;
 * "\r\n" goes behind it.  A piece of no bytes would end the body: do not. */
#define H1_CHUNK_MAX 20
size_t h1_chunk_begin(char text[H1_CHUNK_MAX], size_t len);
/* The last chunk, with trailers. */
void h1_write_end(struct buf *b, const struct http_field *trailers, size_t n);
#endif
