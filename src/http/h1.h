/* h1.h - reads and writes HTTP/1.1 strictly: bytes in, heads and body bytes out; no sockets.
 *
 * One reader serves one direction of one connection, message after message.  It refuses anything
 * that two implementations might read differently:
 *   - bare LF, folded fields, a space before the colon, NUL anywhere;
 *   - both or several lengths, a coding other than chunked, chunk extensions;
 *   - a missing or second Host, absolute-form with another Host;
 *   - a version other than 1.0 and 1.1.
 *
 * Responses come from servers that other clients have to accept too, and we send them on in our own
 * form.  So a response may repeat its length, `transfer-encoding: identity` is ignored, and blanks
 * and extensions behind the size of a chunk are dropped. */
#ifndef CLOISTER_H1_H
#define CLOISTER_H1_H
#include "http/http_head.h"

enum h1_kind { H1_REQUESTS, H1_RESPONSES };

/* The result of h1_read(). */
enum h1_event {
	H1_MORE,                /* needs more bytes */
	H1_HEAD,                /* reader->head is complete, until the next call */
	H1_BODY,                /* a piece of the body; points into the input */
	H1_END,                 /* the message is complete; trailers in reader->head.fields */
	H1_BAD,                 /* refused; reader->status is the response's status (400, 417, 431, 500,
	                         * 501, 505; 502 for a response) and err has the reason.  The reader
	                         * cannot be used any more. */
};

enum h1_form { H1_ORIGIN, H1_ABSOLUTE, H1_AUTHORITY, H1_ASTERISK };

struct h1_reader {
	enum h1_kind kind;
	struct http_head head;
	bool keep_alive;        /* for this message, valid from H1_HEAD on */
	bool expects_continue;  /* the request has `expect: 100-continue` (and a body); the
	                         * field stays in the head too */
	bool until_close;       /* the response's body ends with the connection */
	enum h1_form form;      /* the form of the request's target; with H1_ABSOLUTE, head.scheme is
	                         * from the target and the caller has to compare it */
	uint16_t status;        /* with H1_BAD */
	uint16_t version;       /* 10 or 11 */
	/* private: */
	int state;
	uint64_t left;          /* bytes left of the body or chunk */
	uint64_t length;        /* of the body, where it is known */
	size_t line;            /* bytes of an unfinished line in TEXT */
	bool head_only;         /* no body follows: the response to HEAD, or CONNECT */
	bool skipped_line;      /* the one empty line permitted before a request */
	char *written;          /* the head's path as the client spelled it */
	char *text;             /* holds the head's other strings */
	size_t text_len, text_cap;
	char host[HTTP_HOST_MAX + 1];
};

void h1_reader_init(struct h1_reader *r, enum h1_kind kind);
void h1_reader_free(struct h1_reader *r);
/* Free memory while the connection is idle; the head becomes invalid.  Does nothing in the middle
 * of a message. */
void h1_reader_rest(struct h1_reader *r);
/* Responses: set whether the next one has no body, whatever its head claims (to HEAD). */
void h1_reader_expect(struct h1_reader *r, bool no_body);

/* Parse DATA.  *RET_USED bytes are consumed and must not be passed again.  Pass the rest again,
 * with more bytes behind it.  *RET_PIECE is set with H1_BODY.  Call until H1_MORE, even with no
 * bytes left: H1_END takes a call of its own.  The reader keeps incomplete heads, so with H1_MORE
 * all of DATA is consumed.
 *
 * Each message is one H1_HEAD, any number of H1_BODY, and H1_END.  Only interim responses (1xx, not
 * 101) have no H1_END: the next H1_HEAD belongs to the same message.  The head is a copy, so the
 * caller may free DATA.
 *
 * Bytes behind a message without keep_alive are dropped.  Bytes behind the H1_END of a CONNECT
 * request, of a request with head.upgrade, or of a 101 response may not be HTTP.  Do not read on
 * until that is known.
 *
 * The caller fills in the scheme, the port if the authority has none (0), and the host of a request
 * without a Host field (HTTP/1.0: empty).  Then the head passes http_head_check().  `CONNECT
 * host:port` gives method CONNECT, host, port, path "". */
enum h1_event h1_read(struct h1_reader *r, const char *data, size_t len, size_t *ret_used,
                      struct http_text *ret_piece, struct err *err);
/* The connection has ended.  H1_END if that completes the message (until_close), H1_MORE between
 * messages, else H1_BAD. */
enum h1_event h1_read_eof(struct h1_reader *r, struct err *err);

/* The reader's position in a message, for an error about a connection that ended: "after 3 of 9
 * bytes".  Empty if no bytes of HTTP have arrived, or if the end of the connection would complete
 * the message. */
#define H1_WHERE_MAX 80
void h1_reader_where(const struct h1_reader *r, char text[H1_WHERE_MAX]);

/* Write a head: the request or status line, Host, the length, and `connection: close` unless
 * KEEP_ALIVE.  With head->upgrade, write the upgrade.  HTTP_LENGTH_UNKNOWN becomes chunked, unless
 * PLAIN_BODY (until close, for an HTTP/1.0 client).  NO_BODY: the response to HEAD, without
 * `chunked`.  TO_HTTP10: announce that the connection is kept.  The head must be canonical, or a
 * CONNECT (host and port). */
struct h1_style { bool keep_alive, plain_body, absolute_form, no_body, to_http10; };
void h1_write_head(struct buf *b, const struct http_head *head, struct h1_style style);
/* Write the text before a piece of a chunked body and return its length; "\r\n" goes behind the
 * piece.  LEN must not be 0: an empty chunk would end the body. */
#define H1_CHUNK_MAX 20
size_t h1_chunk_begin(char text[H1_CHUNK_MAX], size_t len);
/* Write the last chunk, with trailers. */
void h1_write_end(struct buf *b, const struct http_field *trailers, size_t n);
#endif
