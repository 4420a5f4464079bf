/* dispatch_limits.c - merges all sources of limits into those of a dispatch. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "cell/cell_spec.h"
#include "dispatch/dispatch_parts.h"

#define LIMIT_TEXT_MAX 64

static int
parse_count(const char *text, uint64_t *ret_n, struct err *err)
{
	return num_parse_count(text, 1, UINT32_MAX, ret_n, err);
}

static const struct {
	const char *name;
	int (*parse)(const char *text, uint64_t *ret_n, struct err *err);
	const char *member;             /* in a cell document */
} limits[] = {
	{ "memory", num_parse_size, "memory" }, { "cpus", num_parse_milli, "cpus_milli" },
	{ "pids", parse_count, "pids" }, { "time", num_parse_duration, "time_ms" },
	{ "disk", num_parse_size, "disk" }, { "io", num_parse_size, "io" },
};

/* Limit K of MAP, as text and as a number; false if it is not set. */
static bool
said(const json_t *map, size_t k, char ret_text[LIMIT_TEXT_MAX], uint64_t *ret_n)
{
	const json_t *value = json_object_get(map, limits[k].name);

	if (json_is_string(value))
		snprintf(ret_text, LIMIT_TEXT_MAX, "%s", json_string_value(value));
	else if (json_is_integer(value))
		snprintf(ret_text, LIMIT_TEXT_MAX, "%lld", (long long)json_integer_value(value));
	else if (json_is_real(value))
		snprintf(ret_text, LIMIT_TEXT_MAX, "%.3f", json_real_value(value));
	else
		return false;
	return limits[k].parse(ret_text, ret_n, NULL) == 0;
}

int
dispatch_limits_merge(const json_t *agent, const json_t *policy, const json_t *const *wanted,
                      size_t n, uint64_t timeout_ms, json_t **ret_limits, struct err *err)
{
	OWN(json_decrefp) json_t *merged = json_object();

	for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
		char text[LIMIT_TEXT_MAX], other[LIMIT_TEXT_MAX];
		uint64_t most = 0, value;
		bool has = said(agent, k, text, &most) || said(policy, k, text, &most);

		for (size_t i = 0; !has && i < n; i++)
			if (said(wanted[i], k, other, &value) && value > most) {
				most = value;
				memcpy(text, other, sizeof(text));
			}
		if (strcmp(limits[k].name, "time") == 0 && timeout_ms > 0 &&
		    (most == 0 || timeout_ms < most)) {
			most = timeout_ms;
			snprintf(text, sizeof(text), "%llums", (unsigned long long)timeout_ms);
		}
		if (most > 0 && json_object_set_new(merged, limits[k].name, json_string(text)) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	*ret_limits = TAKE(merged);
	return 0;
}

/* ---- a child's ---- */

/* A cell's default. */
static uint64_t
usual(size_t k)
{
	struct cell_limits l;
	uint64_t all[ARRAY_LEN(limits)];

	cell_limits_default(&l);
	memcpy(all, (const uint64_t[]){ l.memory, l.cpus_milli, l.pids, l.time_ms, l.disk, l.io },
	       sizeof(all));
	return all[k];
}

static bool
is_time(size_t k)
{
	return strcmp(limits[k].name, "time") == 0;
}

static void
format(size_t k, uint64_t n, char text[LIMIT_TEXT_MAX])
{
	if (strcmp(limits[k].name, "cpus") == 0)
		snprintf(text, LIMIT_TEXT_MAX, "%llu.%03llu", (unsigned long long)n / 1000,
		         (unsigned long long)n % 1000);
	else
		snprintf(text, LIMIT_TEXT_MAX, "%llu%s", (unsigned long long)n, is_time(k) ? "ms" : "");
}

int
dispatch_limits_narrow(const json_t *own, const json_t *outer, uint64_t left_ms,
                       json_t **ret_limits, struct err *err)
{
	OWN(json_decrefp) json_t *narrowed = json_object();

	for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
		char text[LIMIT_TEXT_MAX], theirs[LIMIT_TEXT_MAX];
		uint64_t n, most;
		bool has = said(own, k, text, &n), known = said(outer, k, theirs, &most);

		n = has ? n : usual(k);
		most = known ? most : usual(k);
		known = known && (!is_time(k) || most <= left_ms);
		if (is_time(k) && left_ms < most)
			most = left_ms;
		if (most < n && known)
			memcpy(text, theirs, sizeof(text));
		else if (most < n)
			format(k, most, text);
		if ((has || most < n) && json_object_set_new(narrowed, limits[k].name,
		                                             json_string(text)) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	*ret_limits = TAKE(narrowed);
	return 0;
}

uint64_t
dispatch_limits_time(const json_t *map)
{
	char text[LIMIT_TEXT_MAX];
	uint64_t n;

	for (size_t k = 0; k < ARRAY_LEN(limits); k++)
		if (is_time(k))
			return said(map, k, text, &n) ? n : usual(k);
	return 0;
}

int
dispatch_limits_number(const json_t *map, uint64_t time_ms, json_t **ret_numbers, struct err *err)
{
	OWN(json_decrefp) json_t *numbers = json_object();
	char text[LIMIT_TEXT_MAX];
	uint64_t n = 0;

	for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
		bool has = said(map, k, text, &n);

		if (is_time(k) && time_ms > 0) {
			n = time_ms;
			has = true;
		}
		if (has && json_object_set_new(numbers, limits[k].member, json_integer((json_int_t)n)) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	*ret_numbers = TAKE(numbers);
	return 0;
}
