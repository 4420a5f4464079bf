/* json.h - writes JSON value by value, with commas and escapes.
 *
 * This is the writer for output: it streams, and escapes whatever could control a terminal.  Text that is
 * hashed is written by canon/canon.h, and records, whose members are sorted, by canon/members.h.
 *
 *     struct json w = { .out = stdout };
 *     json_open(&w, NULL, '{'); json_str(&w, "cell", id); json_close(&w, '}');
 *
 * KEY is NULL inside an array and for the outermost value. */
#ifndef CLOISTER_JSON_H
#define CLOISTER_JSON_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
	FILE *out;
	bool comma;
};

void json_open(struct json *w, const char *key, char bracket);
void json_close(struct json *w, char bracket);
/* Bytes that are not UTF-8 become U+FFFD.  A NULL string is null. */
void json_str(struct json *w, const char *key, const char *value);
/* A list; WORDS ends with NULL. */
void json_strv(struct json *w, const char *key, const char *const *words);
void json_u64(struct json *w, const char *key, uint64_t value);
void json_bool(struct json *w, const char *key, bool value);
void json_none(struct json *w, const char *key);
/* The formatted text must be JSON as it is. */
void json_raw(struct json *w, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#endif
