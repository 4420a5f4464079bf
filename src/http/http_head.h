/* http_head.h - a request or response head in its one canonical form.
 *
 * The gate passes heads in this form to the courier, and policies decide on them.  Each request has
 * exactly one form:
 *   - the host is in lower case without a final dot;
 *   - the path has its dot segments resolved;
 *   - field names are in lower case;
 *   - there is no field that belongs to one connection only, and no second length.
 *
 * The courier checks all of it again. */
#ifndef CLOISTER_HTTP_HEAD_H
#define CLOISTER_HTTP_HEAD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define HTTP_FIELDS_MAX 200
#define HTTP_HEAD_MAX (48 * 1024)       /* all strings of a head together */
#define HTTP_HOST_MAX 255
#define HTTP_METHOD_MAX 32
#define HTTP_WRITTEN_MAX (8 * 1024)     /* bytes of a path as its client spelled it */
#define HTTP_LENGTH_UNKNOWN UINT64_MAX  /* streamed: chunks, or HTTP/2 frames */
#define HTTP_LENGTH_MAX ((uint64_t)INT64_MAX)   /* the longest known length */

/* Borrowed bytes; not NUL-terminated. */
struct http_text {
	const char *at;
	size_t len;
};

struct http_field {
	struct http_text name, value;   /* name in lower case */
};

enum http_scheme { HTTP_PLAIN, HTTP_TLS };

struct http_head {
	/* requests only; ignored in a response */
	struct http_text method, host, path;    /* path: with its query, begins with "/"
	                                         * (or is "*" for OPTIONS) */
	struct http_text written;               /* PATH as the client spelled it, if only escapes differ
	                                         * (http_path_is_respelt); else empty.  Never sent on:
	                                         * signatures are checked over it */
	uint16_t port;
	enum http_scheme scheme;
	/* responses only */
	uint16_t status;                        /* 0 in a request */
	/* both */
	uint64_t length;                        /* of the body; 0 if there is none, or
	                                         * HTTP_LENGTH_UNKNOWN.  No body follows in a response
	                                         * to HEAD or with 304, whatever the length */
	bool says_zero;                         /* a request without a body has `content-length: 0` */
	struct http_text upgrade;               /* "websocket" or empty: the requested protocol or, with
	                                         * status 101, the agreed one */
	struct http_field fields[HTTP_FIELDS_MAX];
	size_t n_fields;
};

/* The value of the first field NAME (lower case); empty if absent. */
struct http_text http_head_get(const struct http_head *head, const char *name);
/* Append TEXT as buf_put_str() does. */
void http_text_put(struct buf *b, struct http_text text);
/* Whether HEAD has a content-encoding other than "identity".  Responses may have several. */
bool http_head_is_packed(const struct http_head *head);
/* Whether a server that honours the content type reads JSON in UTF-8; no type is fine. */
bool http_type_is_json(struct http_text content_type);
/* Remove every field NAME (lower case). */
void http_head_drop(struct http_head *head, const char *name);
bool http_text_is(struct http_text text, const char *word);       /* same bytes */
bool http_text_is_nocase(struct http_text text, const char *word); /* ignoring the case of ASCII letters */
bool http_text_is_one_of(struct http_text text, const char *const *words, size_t n);
bool http_text_has_nocase(struct http_text text, const char *word); /* anywhere */

/* Whether the request HEAD is sent with a content-length. */
bool http_head_has_length(const struct http_head *head);

/* Iterates over a request's values of one field as servers receive them, in any version of HTTP.
 * Signers read from here what they sign.  Tests check that both writers agree with it. */
struct http_sent {
	const struct http_head *head;
	struct http_text name;          /* in lower case */
	size_t next;                    /* private */
	char member[HTTP_HOST_MAX + 24];
};
void http_sent_begin(struct http_sent *sent, const struct http_head *head,
                     struct http_text name);
/* Get the next value of the field; false: no more.  A field has no value here if it is dropped, or
 * if servers receive it in different forms (connection, transfer-encoding, several cookies). */
bool http_sent_next(struct http_sent *sent, struct http_text *ret_value);

/* Check that HEAD is canonical and may be sent on:
 *   - Every character of every part is valid, and the sum of sizes is within HTTP_HEAD_MAX.
 *   - There is no connection-level field: connection, keep-alive, proxy-*, te but "trailers",
 *     transfer-encoding, upgrade, host, content-length.  The members above hold those.
 *   - Methods are capitals, digits, "-" and "_".  CONNECT cannot be sent on.
 *   - A request has a host and a port, and at most one of each field that a decision may depend on
 *     (authorization, content-type, content-encoding and the like).
 *   - Values may hold tabs and bytes from 0x80 on, but do not begin or end with a blank.
 *   - `expect` is "100-continue" in any letter case (it may be signed as written).
 * The error names the violation. */
int http_head_check(const struct http_head *head, struct err *err);
/* The same for trailers.  They also must not affect framing, routing, authority or how the body is
 * read. */
int http_trailers_check(const struct http_field *fields, size_t n, struct err *err);

/* Whether a canonical head has no field NAME (lower case).  Its value goes into a member (host,
 * content-length, upgrade, ...) or is dropped.  `te` is not one of these fields: keep it only as
 * "trailers". */
bool http_field_is_hop(struct http_text name);
/* Parse a Content-Length: plain digits, no sign, no blank, no leading zero, no list. */
int http_length_parse(struct http_text text, uint64_t *ret_length, struct err *err);

/* For the channel between gate and courier.  http_head_decode() points into B's data, allocates
 * nothing, and checks as http_head_check() does.  After a failure, *ret_head is meaningless. */
void http_head_encode(struct buf *b, const struct http_head *head);
int http_head_decode(struct buf *b, struct http_head *ret_head, struct err *err);
/* The same for a head that this process has checked before; the sender's check does not count.
 * False if it is garbled. */
bool http_head_decode_checked(struct buf *b, struct http_head *ret_head);
/* Copy only the used fields: HTTP_FIELDS_MAX is a lot to copy. */
void http_head_copy(struct http_head *to, const struct http_head *from);
/* Only trailers (http_trailers_check). */
void http_fields_encode(struct buf *b, const struct http_field *fields, size_t n);
int http_fields_decode(struct buf *b, struct http_field ret_fields[HTTP_FIELDS_MAX],
                       size_t *ret_n, struct err *err);

/* Parse the host and port of a URL or Host field into canonical form:
 *   - lower case, no final dot;
 *   - IPv6 in brackets, in its shortest form;
 *   - IPv4 only as four plain decimal numbers: other forms that inet_aton() would accept (octal,
 *     hex, fewer parts) are refused;
 *   - labels of letters, digits, "-" and "_" (IDNs as xn--).
 * RET_HOST is NUL-terminated.  RET_PORT is 0 if there is none.  Both are untouched on failure. */
int http_authority_parse(struct http_text text, char ret_host[HTTP_HOST_MAX + 1],
                         uint16_t *ret_port, struct err *err);

/* Write the canonical path and query of a request target into OUT.  "." and ".." segments are
 * resolved (also "%2e"), never above the root.  Unreserved characters are decoded, other escapes
 * are in upper case.  Bytes from 0x80 on, and a "%" that begins no escape, become escapes.  OUT
 * needs http_path_room() bytes; if that is TEXT's own length, OUT may be TEXT's own memory.
 *
 * Raw control characters, spaces and "#" are errors, and in the path also "\", "%5c" and "%00".
 * "%2F" stays as it is, because package registries use it; it does not end a segment.  A segment
 * that some servers read as a dot segment, such as "..%2f", "..;" or "..%09", is an error, even if
 * a later ".." would remove it. */
size_t http_path_room(struct http_text text);
int http_path_normalise(struct http_text text, char *out, size_t size, size_t *ret_len,
                        struct err *err);
/* Whether TEXT differs from the canonical PATH, and only in escapes that stand for the same
 * bytes: "%7e" for "~", "%c3" for "%C3".  No dot segment was resolved. */
bool http_path_is_respelt(struct http_text text, struct http_text path);
#endif
