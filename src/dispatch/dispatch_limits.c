/* dispatch_limits.c - which limits a dispatch has, of all that were said. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
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
} limits[] = {
	{ "memory", num_parse_size }, { "cpus", num_parse_milli }, { "pids", parse_count },
	{ "time", num_parse_duration }, { "disk", num_parse_size }, { "io", num_parse_size },
};

/* What MAP says of limit K, as text and as a number; false if nothing. */
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
