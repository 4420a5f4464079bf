/* h1_write.c - writes HTTP/1.1 heads, chunks and trailers. */
#include <string.h>

#include "base/own.h"
#include "http/h1.h"
#include "http/http_parts.h"

#define NUMBER_MAX 20
/* The most bytes in a head besides its members' strings: "HTTP/1.1", a status with its reason, a
 * scheme, a port, the names and values of our own fields. */
#define LINES_MAX 320

static const char *const reasons_1[] = { "Continue", "Switching Protocols", "Processing",
	"Early Hints" };
static const char *const reasons_2[] = { "OK", "Created", "Accepted",
	"Non-Authoritative Information", "No Content", "Reset Content", "Partial Content",
	"Multi-Status", "Already Reported" };
static const char *const reasons_3[] = { "Multiple Choices", "Moved Permanently", "Found",
	"See Other", "Not Modified", "Use Proxy", "", "Temporary Redirect",
	"Permanent Redirect" };
static const char *const reasons_4[] = { "Bad Request", "Unauthorized", "Payment Required",
	"Forbidden", "Not Found", "Method Not Allowed", "Not Acceptable",
	"Proxy Authentication Required", "Request Timeout", "Conflict", "Gone",
	"Length Required", "Precondition Failed", "Content Too Large", "URI Too Long",
	"Unsupported Media Type", "Range Not Satisfiable", "Expectation Failed", "", "", "",
	"Misdirected Request", "Unprocessable Content", "Locked", "Failed Dependency",
	"Too Early", "Upgrade Required", "", "Precondition Required", "Too Many Requests", "",
	"Request Header Fields Too Large" };
static const char *const reasons_5[] = { "Internal Server Error", "Not Implemented",
	"Bad Gateway", "Service Unavailable", "Gateway Timeout", "HTTP Version Not Supported",
	"Variant Also Negotiates", "Insufficient Storage", "Loop Detected", "",
	"Not Extended", "Network Authentication Required" };

static const struct {
	const char *const *reasons;
	size_t n;
} reasons[] = {
	[1] = { reasons_1, ARRAY_LEN(reasons_1) }, [2] = { reasons_2, ARRAY_LEN(reasons_2) },
	[3] = { reasons_3, ARRAY_LEN(reasons_3) }, [4] = { reasons_4, ARRAY_LEN(reasons_4) },
	[5] = { reasons_5, ARRAY_LEN(reasons_5) },
};

static const char *
reason_of(uint16_t status)
{
	size_t hundred = status / 100, rest = status % 100;

	return hundred < ARRAY_LEN(reasons) && rest < reasons[hundred].n ?
		reasons[hundred].reasons[rest] : "";
}

/* Each function here writes at AT, where there is room, and returns the position behind. */

static char *
put_text(char *at, struct http_text text)
{
	if (text.len > 0)
		memcpy(at, text.at, text.len);
	return at + text.len;
}

static char *
put(char *at, const char *word)
{
	return put_text(at, (struct http_text){ word, strlen(word) });
}

static char *
put_number(char *at, uint64_t n)
{
	char digits[NUMBER_MAX];
	size_t i = sizeof(digits);

	do
		digits[--i] = (char)('0' + n % 10);
	while ((n /= 10) > 0);
	memcpy(at, digits + i, sizeof(digits) - i);
	return at + sizeof(digits) - i;
}

static char *
put_field(char *at, const struct http_field *field)
{
	at = put_text(at, field->name);
	*at++ = ':';
	*at++ = ' ';
	at = put_text(at, field->value);
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

static char *
put_authority(char *at, const struct http_head *head, bool with_port)
{
	at = put_text(at, head->host);
	if (with_port || head->port != http_default_port(head->scheme)) {
		*at++ = ':';
		at = put_number(at, head->port);
	}
	return at;
}

static char *
put_request_line(char *at, const struct http_head *head, struct h1_style style)
{
	bool connect = http_text_is(head->method, "CONNECT");

	at = put_text(at, head->method);
	*at++ = ' ';
	if (connect) {
		at = put_authority(at, head, true);
	} else {
		if (style.absolute_form) {
			at = put(at, head->scheme == HTTP_TLS ? "https://" : "http://");
			at = put_authority(at, head, false);
		}
		/* RFC 9112, 3.2.4: the target "*" has no path in absolute form. */
		if (!style.absolute_form || head->path.len != 1 || head->path.at[0] != '*')
			at = put_text(at, head->path);
	}
	at = put(at, " HTTP/1.1\r\nhost: ");
	at = put_authority(at, head, connect);
	return put(at, "\r\n");
}

static char *
put_status_line(char *at, const struct http_head *head)
{
	at = put(at, "HTTP/1.1 ");
	at = put_number(at, head->status);
	*at++ = ' ';
	at = put(at, reason_of(head->status));
	return put(at, "\r\n");
}

/* HTTP/2 may split cookies; HTTP/1.1 needs them in one field (RFC 9113, 8.2.3). */
static char *
put_cookies(char *at, const struct http_head *head, size_t first)
{
	at = put(at, "cookie: ");
	at = put_text(at, head->fields[first].value);
	for (size_t i = first + 1; i < head->n_fields; i++)
		if (http_text_is(head->fields[i].name, "cookie")) {
			at = put(at, "; ");
			at = put_text(at, head->fields[i].value);
		}
	return put(at, "\r\n");
}

static char *
put_fields(char *at, const struct http_head *head)
{
	bool cookies = false;

	for (size_t i = 0; i < head->n_fields; i++) {
		if (head->fields[i].name.len != 6 || head->status != 0 ||
		    memcmp(head->fields[i].name.at, "cookie", 6) != 0) {
			at = put_field(at, &head->fields[i]);
		} else if (!cookies) {
			cookies = true;
			at = put_cookies(at, head, i);
		}
	}
	return at;
}

/* Whether a content-length is written. */
static bool
has_length(const struct http_head *head)
{
	if (head->status == 0)
		return http_head_has_length(head);
	return head->length > 0 ||
		(head->status >= 200 && head->status != 204 && head->status != 304);
}

static char *
put_length(char *at, const struct http_head *head, struct h1_style style)
{
	if (head->length == HTTP_LENGTH_UNKNOWN) {
		if (style.plain_body || style.no_body || head->status == 304)
			return at;
		return put(at, "transfer-encoding: chunked\r\n");
	}
	if (!has_length(head))
		return at;
	at = put(at, "content-length: ");
	at = put_number(at, head->length);
	return put(at, "\r\n");
}

static char *
put_connection(char *at, const struct http_head *head, struct h1_style style)
{
	/* RFC 9110, 10.1.4: `te` is for the next hop only, and `connection` must name it. */
	bool te = head->status == 0 && http_head_get(head, "te").len > 0;

	if (head->upgrade.len > 0) {
		at = put(at, "connection: upgrade");
		at = put(at, te ? ", te\r\nupgrade: " : "\r\nupgrade: ");
		at = put_text(at, head->upgrade);
		return put(at, "\r\n");
	}
	if (head->status >= 100 && head->status < 200)
		return at;
	if (!style.keep_alive)
		return put(at, te ? "connection: close, te\r\n" : "connection: close\r\n");
	if (style.to_http10)
		return put(at, "connection: keep-alive\r\n");
	return te ? put(at, "connection: te\r\n") : at;
}

void
h1_write_head(struct buf *b, const struct http_head *head, struct h1_style style)
{
	size_t size = LINES_MAX + head->method.len + 2 * head->host.len + head->path.len +
		head->upgrade.len;
	unsigned char *start;
	char *at;

	for (size_t i = 0; i < head->n_fields; i++)
		size += head->fields[i].name.len + head->fields[i].value.len + 4;
	start = buf_add(b, size);
	if (start == NULL)
		return;
	at = (char *)start;
	at = head->status == 0 ? put_request_line(at, head, style) : put_status_line(at, head);
	at = put_fields(at, head);
	at = put_length(at, head, style);
	at = put_connection(at, head, style);
	at = put(at, "\r\n");
	/* Give back the unused room. */
	b->len -= size - (size_t)(at - (char *)start);
}

size_t
h1_chunk_begin(char text[H1_CHUNK_MAX], size_t len)
{
	static const char hex[] = "0123456789abcdef";
	size_t n = 1;

	while (n < 16 && len >> (4 * n) != 0)
		n++;
	for (size_t i = 0; i < n; i++)
		text[i] = hex[len >> (4 * (n - 1 - i)) & 15];
	text[n] = '\r';
	text[n + 1] = '\n';
	return n + 2;
}

void
h1_write_end(struct buf *b, const struct http_field *trailers, size_t n)
{
	size_t size = 5 + 4 * n;
	unsigned char *start;
	char *at;

	for (size_t i = 0; i < n; i++)
		size += trailers[i].name.len + trailers[i].value.len;
	start = buf_add(b, size);
	if (start == NULL)
		return;
	at = put((char *)start, "0\r\n");
	for (size_t i = 0; i < n; i++)
		at = put_field(at, &trailers[i]);
	put(at, "\r\n");
}
