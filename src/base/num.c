/* num.c - see num.h. */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

/* Limits how much of the user's text an error repeats. */
#define SHOWN 40

/* Parse the digits at *P, and move *P behind them. strtoull() would accept signs, spaces and a
 * locale. */
static int
take_digits(const char **p, uint64_t *ret_n)
{
	const char *s = *p;
	uint64_t n = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(n, UINT64_C(10), &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			return -ERANGE;
	}
	*p = s;
	*ret_n = n;
	return 0;
}

static int
complain(struct err *err, int r, const char *text, const char *want)
{
	if (r == -ERANGE)
		return err_set(err, ERANGE, "'%.*s' is too large", SHOWN, text);
	return err_set(err, EINVAL, "'%.*s' is not %s", SHOWN, text, want);
}

int
num_parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *ret_n,
                struct err *err)
{
	const char *p = text;
	uint64_t n;
	int r = take_digits(&p, &n);

	if (r == -EINVAL || (r == 0 && *p != '\0'))
		return complain(err, -EINVAL, text, "a number");
	if (r < 0 || n < min || n > max)
		return err_set(err, ERANGE, "'%.*s' is not from %" PRIu64 " to %" PRIu64,
		               SHOWN, text, min, max);
	*ret_n = n;
	return 0;
}

/* K, M, G, T in either case, then B or iB; -1 for anything else. */
static int
size_shift(const char *unit)
{
	static const char letters[] = "kmgt";
	const char *letter = NULL;
	int shift = 0;

	if (*unit != '\0')
		letter = strchr(letters, *unit | 0x20);
	if (letter != NULL) {
		shift = 10 * (int)(letter - letters + 1);
		unit++;
		if (strcmp(unit, "iB") == 0)
			return shift;
	}
	return *unit == '\0' || strcmp(unit, "B") == 0 ? shift : -1;
}

int
num_parse_size(const char *text, uint64_t *ret_bytes, struct err *err)
{
	const char *p = text;
	uint64_t n;
	int r = take_digits(&p, &n), shift;

	if (r == 0) {
		shift = size_shift(p);
		if (shift < 0)
			r = -EINVAL;
		else if (__builtin_mul_overflow(n, UINT64_C(1) << shift, &n))
			r = -ERANGE;
	}
	if (r < 0)
		return complain(err, r, text, "a size such as 512M or 4G");
	*ret_bytes = n;
	return 0;
}

static const struct {
	const char *name;
	uint64_t ms;
} units[] = {                       /* from large to small, as they are written */
	{ "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 }, { "ms", 1 },
};

/* Parse the unit at *P, and move *P behind it; ARRAY_LEN(units) if there is none. */
static size_t
take_unit(const char **p)
{
	size_t len = strcspn(*p, "0123456789"), i;

	for (i = 0; i < ARRAY_LEN(units); i++)
		if (strlen(units[i].name) == len && strncmp(*p, units[i].name, len) == 0)
			break;
	*p += len;
	return i;
}

static int
parse_duration(const char *p, uint64_t *ret_ms)
{
	uint64_t ms = 0, n;
	size_t unit, least = 0;
	int r;

	r = take_digits(&p, &n);
	if (r == 0 && *p == '\0')
		p = "s";                    /* a bare number is seconds */
	while (r == 0) {
		unit = take_unit(&p);
		if (unit == ARRAY_LEN(units) || unit < least)
			return -EINVAL;
		if (__builtin_mul_overflow(n, units[unit].ms, &n) ||
		    __builtin_add_overflow(ms, n, &ms))
			return -ERANGE;
		if (*p == '\0')
			break;
		least = unit + 1;
		r = take_digits(&p, &n);
	}
	if (r == 0)
		*ret_ms = ms;
	return r;
}

int
num_parse_duration(const char *text, uint64_t *ret_ms, struct err *err)
{
	int r = parse_duration(text, ret_ms);

	return r == 0 ? 0 : complain(err, r, text, "a time such as 90s, 30m or 1h30m");
}

/* At most DIGITS behind the point; the result is in units of the last digit. */
static int
parse_fraction(const char *text, int digits, uint64_t *ret_n, struct err *err)
{
	const char *p = text, *fraction;
	uint64_t n, part = 0, unit = 1;
	int r = take_digits(&p, &n);

	for (int i = 0; i < digits; i++)
		unit *= 10;
	if (r == 0 && __builtin_mul_overflow(n, unit, &n))
		r = -ERANGE;
	if (r == 0 && *p == '.') {
		fraction = ++p;
		r = take_digits(&p, &part);
		if (r < 0 || p - fraction > digits)
			r = -EINVAL;
		else
			for (ptrdiff_t i = p - fraction; i < digits; i++)
				part *= 10;
	}
	if (r == 0 && *p != '\0')
		r = -EINVAL;
	if (r == 0 && __builtin_add_overflow(n, part, &n))
		r = -ERANGE;
	if (r < 0)
		return complain(err, r, text, "a number such as 2 or 0.5");
	*ret_n = n;
	return 0;
}

int
num_parse_milli(const char *text, uint64_t *ret_milli, struct err *err)
{
	return parse_fraction(text, 3, ret_milli, err);
}

int
num_parse_nano(const char *text, uint64_t *ret_nano, struct err *err)
{
	return parse_fraction(text, 9, ret_nano, err);
}

char *
num_format_nano(char text[NUM_TEXT_MAX], uint64_t nano)
{
	uint64_t micro = nano / 1000 + (nano % 1000 >= 500);
	size_t len;

	snprintf(text, NUM_TEXT_MAX, "%" PRIu64 ".%06u", micro / 1000000, (unsigned)(micro % 1000000));
	for (len = strlen(text); text[len - 1] == '0' && text[len - 3] != '.'; len--)
		text[len - 1] = '\0';
	return text;
}

/* BYTES in units of 1 << SHIFT, rounded, as tenths: 1.5 is 15.  From 10 on whole units only: 12.4
 * is 120. */
static uint64_t
tenths(uint64_t bytes, int shift)
{
	uint64_t unit = UINT64_C(1) << shift;
	uint64_t whole = bytes >> shift, rest = bytes & (unit - 1);
	uint64_t t = whole * 10 + (rest * 10 + unit / 2) / unit;

	return t < 100 ? t : (whole + (rest >= unit / 2)) * 10;
}

char *
num_format_size(char text[NUM_TEXT_MAX], uint64_t bytes)
{
	static const char letters[] = "BKMGT";
	int i = 0;
	uint64_t t = bytes < 1024 ? bytes * 10 : 10240;

	while (t >= 10240 && letters[i + 1] != '\0') {
		i++;
		t = tenths(bytes, 10 * i);
	}
	if (t % 10 == 0)
		snprintf(text, NUM_TEXT_MAX, "%" PRIu64 "%c", t / 10, letters[i]);
	else
		snprintf(text, NUM_TEXT_MAX, "%" PRIu64 ".%u%c", t / 10, (unsigned)(t % 10),
		         letters[i]);
	return text;
}

char *
num_format_duration(char text[NUM_TEXT_MAX], uint64_t ms)
{
	uint64_t rest = 0;
	size_t i = 0;

	while (i < ARRAY_LEN(units) - 1 && ms < units[i].ms)
		i++;
	/* Two adjacent units are exact enough for people. */
	if (i < 3)
		rest = ms % units[i].ms / units[i + 1].ms;
	if (rest > 0)
		snprintf(text, NUM_TEXT_MAX, "%" PRIu64 "%s%02u%s", ms / units[i].ms,
		         units[i].name, (unsigned)rest, units[i + 1].name);
	else
		snprintf(text, NUM_TEXT_MAX, "%" PRIu64 "%s", ms / units[i].ms, units[i].name);
	return text;
}

char *
num_format_age(char text[NUM_TEXT_MAX], uint64_t ms)
{
	if (ms >= 1000)
		return num_format_duration(text, ms / 1000 * 1000);
	snprintf(text, NUM_TEXT_MAX, "<1s");
	return text;
}
