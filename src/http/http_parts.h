/* http_parts.h - shared by the files of http/: character classes and known fields. */
#ifndef CLOISTER_HTTP_PARTS_H
#define CLOISTER_HTTP_PARTS_H
#include "http/http_head.h"

/* The lower case of a character that a field name may have, 0 for any other. */
extern const unsigned char http_name_lower[256];

/* The first byte from AT on that is not valid in a field value (END if all are): control characters
 * but HTAB. */
const char *http_value_end(const char *at, const char *end);

static inline bool
http_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static inline bool
http_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline char
http_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Fields with a meaning here. */
enum http_known_id {
	HTTP_OTHER, HTTP_CONNECTION, HTTP_CONTENT_LENGTH, HTTP_EXPECT, HTTP_HOST, HTTP_TE,
	HTTP_TRANSFER_ENCODING, HTTP_UPGRADE,
};
enum http_known_flags {
	HTTP_HOP = 1,           /* never in a canonical head */
	HTTP_ONCE = 2,          /* at most one in a request */
	HTTP_NO_TRAILER = 4,
	HTTP_KEEP = 8,          /* `connection` must not name it */
	HTTP_NO_ALIAS = 16,     /* must not be spelled with "_" for "-": CGI-style servers treat both
	                         * as the same */
};
struct http_known {
	const char *name;
	uint8_t id, flags;
	uint8_t number;         /* the number of its bit for HTTP_ONCE */
};

/* NAME in lower case; NULL if it is not known. */
const struct http_known *http_known_find(const char *name, size_t len);
/* The known field that NAME imitates with "_" for "-", if that is forbidden. */
const struct http_known *http_known_alias(const char *name, size_t len);

bool http_method_is_good(struct http_text method);
bool http_path_is_canonical(struct http_text path);
/* Whether a lenient server could read SEGMENT, or a part of it, as "." or "..".  SEGMENT is from a
 * canonical path and not a dot segment itself.  Examples: "..%09", "..;", "%252e.", "..%C0%AF",
 * the fullwidth "．．"; http_dots.c has more. */
bool http_segment_hides_dots(struct http_text segment);
bool http_host_is_canonical(struct http_text host);

static inline uint16_t
http_default_port(enum http_scheme scheme)
{
	return scheme == HTTP_TLS ? 443 : 80;
}
#endif
