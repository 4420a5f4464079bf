/* since.h - the values of --since. */
#ifndef CLOISTER_SINCE_H
#define CLOISTER_SINCE_H
#include <stdint.h>

struct err;

/* Reads a time ago ("10m", "2h", "1h30m"), or a time of RFC 3339 ("2026-11-18T10:00:00Z", "2026-11-18T11:00:00+01:00",
 * "2026-11-18"): milliseconds since 1970.  NOW_MS is the same for the present. */
int since_parse(const char *text, uint64_t now_ms, uint64_t *ret_ms, struct err *err);
/* The same time as events have it: "2026-11-18T10:00:00.000Z".  Such texts sort as their times. */
#define SINCE_TEXT_MAX 32
void since_format(uint64_t ms, char ret_text[SINCE_TEXT_MAX]);
/* The present, in milliseconds since 1970. */
uint64_t since_now_ms(void);
#endif
