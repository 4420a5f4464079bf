/* num.h - parses and formats numbers as people write them: 2G, 1h30m, 1.5. */
#ifndef CLOISTER_NUM_H
#define CLOISTER_NUM_H
#include <stddef.h>
#include <stdint.h>

struct err;

/* A plain decimal number from MIN to MAX; no sign, no space, nothing behind it. */
int num_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_n,
                    struct err *err);
/* Bytes: digits and an optional K, M, G or T (binary); "B" or "iB" may follow. */
int num_parse_size(const char *text, uint64_t *ret_bytes, struct err *err);
/* Milliseconds: "90", "90s", "250ms", "5m", "1h30m", "2d". */
int num_parse_duration(const char *text, uint64_t *ret_ms, struct err *err);
/* Thousandths: "2", "0.5", "1.25". */
int num_parse_milli(const char *text, uint64_t *ret_milli, struct err *err);
/* Billionths: "5", "0.0375". */
int num_parse_nano(const char *text, uint64_t *ret_nano, struct err *err);

#define NUM_TEXT_MAX 32
/* "512M", "1.5G": short, for people.  Returns TEXT. */
char *num_format_size(char text[NUM_TEXT_MAX], uint64_t bytes);
/* "250ms", "12s", "3m20s", "2h05m", "4d". */
char *num_format_duration(char text[NUM_TEXT_MAX], uint64_t ms);
/* The age of something in whole seconds: "<1s", "12s". */
char *num_format_age(char text[NUM_TEXT_MAX], uint64_t ms);
/* "5.00", "0.0375": two digits behind the point, or up to six if they are significant. */
char *num_format_nano(char text[NUM_TEXT_MAX], uint64_t nano);
#endif
