/* since.c - see since.h. */
#include "base/since.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/num.h"

#define YEAR_MAX 9999

uint64_t
since_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Behind the seconds: perhaps a fraction, of which the milliseconds count; then "Z" or "+01:00", the seconds to
 * subtract. */
static int
parse_zone(const char *text, uint64_t *ret_ms, int64_t *ret_seconds)
{
	unsigned hours, minutes;
	int n = 0;

	*ret_ms = 0;
	if (*text == '.') {
		for (uint64_t unit = 100; *++text >= '0' && *text <= '9'; unit /= 10)
			*ret_ms += unit * (uint64_t)(*text - '0');
	}
	*ret_seconds = 0;
	if (strcmp(text, "Z") == 0 || strcmp(text, "z") == 0)
		return 0;
	if ((*text != '+' && *text != '-') || sscanf(text + 1, "%2u:%2u%n", &hours, &minutes, &n) != 2 ||
	    n != 5 || text[6] != '\0' || hours > 23 || minutes > 59)
		return -EINVAL;
	*ret_seconds = (int64_t)(hours * 3600 + minutes * 60) * (*text == '+' ? 1 : -1);
	return 0;
}

static int
parse_time(const char *text, uint64_t *ret_ms)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%d", &tm);
	int64_t zone = 0, seconds;
	uint64_t ms = 0;

	if (rest == NULL)
		return -EINVAL;
	if (*rest != '\0') {
		rest = *rest == 'T' || *rest == 't' || *rest == ' ' ? strptime(rest + 1, "%H:%M:%S", &tm) : NULL;
		if (rest == NULL || parse_zone(rest, &ms, &zone) < 0)
			return -EINVAL;
		seconds = (int64_t)timegm(&tm) - zone;
	} else {
		/* A day begins where the operator is. */
		tm.tm_isdst = -1;
		seconds = (int64_t)mktime(&tm);
	}
	if (seconds < 0 || tm.tm_year + 1900 > YEAR_MAX)
		return -EINVAL;
	*ret_ms = (uint64_t)seconds * 1000 + ms;
	return 0;
}

int
since_parse(const char *text, uint64_t now_ms, uint64_t *ret_ms, struct err *err)
{
	uint64_t ago;

	if (parse_time(text, ret_ms) == 0)
		return 0;
	if (num_parse_duration(text, &ago, NULL) < 0)
		return err_set(err, EINVAL, "'%.64s' is no time: use a time ago, such as 10m or 2h, or a time such as "
		               "2026-11-18T10:00:00Z", text);
	*ret_ms = ago < now_ms ? now_ms - ago : 0;
	return 0;
}

void
since_format(uint64_t ms, char ret_text[SINCE_TEXT_MAX])
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	if (gmtime_r(&seconds, &tm) == NULL || tm.tm_year + 1900 > YEAR_MAX)
		memset(&tm, 0, sizeof(tm));
	snprintf(ret_text, SINCE_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ", (tm.tm_year + 1900) % 10000,
	         (tm.tm_mon + 1) % 100, tm.tm_mday % 100, tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100,
	         (unsigned)(ms % 1000));
}
