/* http_lab.h - feeds HTTP/1.1 to a reader in every way of cutting it, and tells what came
 * of it as one text. */
#ifndef CLOISTER_HTTP_LAB_H
#define CLOISTER_HTTP_LAB_H
#include "http/h1.h"
#include "test.h"

/* A literal that may have zero bytes in it, as two arguments. */
#define BYTES(literal) literal, sizeof(literal) - 1

enum lab_kind { LAB_REQUESTS, LAB_RESPONSES, LAB_ANSWERS_TO_HEAD };

/* What a reader makes of DATA, then of the end of the connection.  For a request
 *	GET http|example.com|0|/path|0|k
 *	name=value
 * (form, host, port, path, length, and k: keep alive, c: expects 100, w: websocket,
 * 0: HTTP/1.0); for a response "200|length|flags" (u: until close); then the body
 * between "<" and ">", "+name=value" for each trailer, "." for its end, and "!400" when
 * it is refused.  "EOF" stands for the connection's end where it is no error, and
 * "EOF!" where it is one.
 * It is checked that every way of cutting gives the same, that every head passes
 * http_head_check() and survives http_head_encode().  The caller frees it. */
char *lab_read(enum lab_kind kind, const char *data, size_t len);
void lab_check(enum lab_kind kind, const char *data, size_t len, const char *want,
               const char *file, int line);
/* Only that it is refused with this status (0: that it is not). */
void lab_check_refused(enum lab_kind kind, const char *data, size_t len, int status);
#endif
