/* route.c - see route.h. */
#include "serve/route.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

/* TEXT without its escapes; NULL if the result is no text, or without memory. */
static char *
decode(const char *text, size_t len, bool plus_is_space)
{
	char *out = malloc(len + 1);
	size_t n = 0;
	uint32_t code;

	if (out == NULL)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '%') {
			int byte = codec_percent_byte(text + i, len - i);

			/* A NUL would hide the rest of the text. */
			if (byte <= 0)
				goto bad;
			out[n++] = (char)byte;
			i += 2;
		} else {
			out[n++] = text[i] == '+' && plus_is_space ? ' ' : text[i];
		}
	}
	out[n] = '\0';
	for (size_t i = 0, step; i < n; i += step) {
		step = utf8_next(out + i, n - i, &code);
		if (step == 0)
			goto bad;
	}
	return out;
bad:
	free(out);
	return NULL;
}

void
route_params_free(struct route_params *params)
{
	for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++)
		free(params->at[i]);
	*params = (struct route_params){0};
}

bool
route_match(const char *pattern, const char *path, struct route_params *ret_params)
{
	OWN(route_params_free) struct route_params params = {0};
	size_t n = 0;

	while (*pattern == '/' && *path == '/') {
		size_t want = strcspn(++pattern, "/"), have = strcspn(++path, "/");

		if (pattern[0] == '{') {
			if (pattern[want - 2] == '*')
				have = strlen(path);
			if (have == 0 || n == ROUTE_PARAMS_MAX)
				return false;
			params.at[n] = decode(path, have, false);
			if (params.at[n++] == NULL)
				return false;
		} else if (want != have || memcmp(pattern, path, want) != 0) {
			return false;
		}
		pattern += want;
		path += have;
	}
	if (*pattern != '\0' || *path != '\0')
		return false;
	*ret_params = params;
	params = (struct route_params){0};
	return true;
}

/* The index of the LEN bytes at WORD in NAMES; -1: none. */
static int
index_of(const char *names, const char *word, size_t len)
{
	int i = 0;

	for (const char *at = names; at != NULL && *at != '\0'; i++) {
		size_t n = strcspn(at, " ");

		if (n == len && memcmp(at, word, n) == 0)
			return i;
		at += n + strspn(at + n, " ");
	}
	return -1;
}

int
route_query(const char *query, const char *names, char *ret_values[ROUTE_QUERY_MAX],
            struct err *err)
{
	char *values[ROUTE_QUERY_MAX] = {0};

	for (const char *at = query + strspn(query, "&"); *at != '\0'; at += strspn(at, "&")) {
		size_t len = strcspn(at, "&"), name = strcspn(at, "=&");
		const char *value = at + name + (name < len);
		int i = index_of(names, at, name);

		if (i < 0) {
			err_set(err, EINVAL, "there is no parameter '%.*s' here%s%s", name > 64 ? 64 : (int)name,
			        at, names != NULL ? ", only: " : "", names != NULL ? names : "");
			goto bad;
		}
		if (values[i] != NULL) {
			err_set(err, EINVAL, "the parameter '%.*s' stands there twice", (int)name, at);
			goto bad;
		}
		values[i] = decode(value, len - (size_t)(value - at), true);
		if (values[i] == NULL) {
			err_set(err, EINVAL, "the parameter '%.*s' is not written as a query has it", (int)name, at);
			goto bad;
		}
		at += len;
	}
	memcpy(ret_values, values, sizeof(values));
	return 0;
bad:
	route_query_free(values);
	return -EINVAL;
}

void
route_query_free(char *values[ROUTE_QUERY_MAX])
{
	for (size_t i = 0; i < ROUTE_QUERY_MAX; i++) {
		free(values[i]);
		values[i] = NULL;
	}
}
