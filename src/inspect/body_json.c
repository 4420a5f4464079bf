/* body_json.c - values in a JSON body, by pointers. */
#include "inspect/body.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/own.h"

/* ---- parsing ---- */

static size_t memory_used;

/* Small values take a hundred times the room that they take as text. */
static void *
count_malloc(size_t size)
{
	void *p = NULL;

	if (size <= BODY_JSON_MEMORY_MAX - memory_used)
		p = malloc(size);
	if (p != NULL)
		memory_used += malloc_usable_size(p);
	if (memory_used > BODY_JSON_MEMORY_MAX)
		memory_used = BODY_JSON_MEMORY_MAX;
	return p;
}

static void
count_free(void *p)
{
	size_t size = malloc_usable_size(p);

	memory_used -= size < memory_used ? size : memory_used;
	free(p);
}

/* Names must not be made to collide; left alone, the library would open a file for that. */
static void
prepare(void)
{
	static bool done;
	size_t seed = 0;

	if (done)
		return;
	done = true;
	json_set_alloc_funcs(count_malloc, count_free);
	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		abort();
	json_object_seed(seed | 1);
}

json_t *
body_json_parse(const char *data, size_t len)
{
	prepare();
	return json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL |
	                             JSON_DECODE_INT_AS_REAL, NULL);
}

void
body_json_freep(json_t **value)
{
	json_decref(*value);
}

/* ---- pointers ---- */

struct tally { size_t found, fit; };

static bool
value_fits(const struct policy_value *want, const json_t *got)
{
	switch (want->kind) {
	case POLICY_VALUE_GLOB:
		return json_is_string(got) && policy_glob_text(want->glob, json_string_value(got),
		                                               json_string_length(got));
	case POLICY_VALUE_NUMBER:
		return json_is_number(got) && json_number_value(got) == want->number;
	case POLICY_VALUE_BOOL:
		return json_is_boolean(got) && json_is_true(got) == want->truth;
	case POLICY_VALUE_NULL:
		return json_is_null(got);
	case POLICY_VALUE_ABSENT:
		return got == NULL;
	default:
		return false;
	}
}

static void
count_value(const struct policy_json *want, const json_t *got, struct tally *tally)
{
	tally->found++;
	for (size_t i = 0; i < want->n_values; i++) {
		if (value_fits(&want->values[i], got)) {
			tally->fit++;
			return;
		}
	}
}

/* One part of a pointer, with ~1 and ~0 undone; *pointer moves to the next "/" or the end. */
static size_t
next_part(const char **pointer, char out[POLICY_TEXT_MAX])
{
	const char *p = *pointer + 1;
	size_t n = 0;

	for (; *p != '\0' && *p != '/' && n < POLICY_TEXT_MAX - 1; p++) {
		bool tilde = *p == '~' && (p[1] == '0' || p[1] == '1');

		out[n++] = !tilde ? *p : p[1] == '0' ? '~' : '/';
		p += tilde;
	}
	out[n] = '\0';
	*pointer = p;
	return n;
}

/* RFC 6901: digits, no zero in front; what is no index leads nowhere. */
static const json_t *
element(const json_t *array, const char *part)
{
	size_t i = 0;

	if (part[0] == '\0' || (part[0] == '0' && part[1] != '\0') || strlen(part) > 9)
		return NULL;
	for (; *part != '\0'; part++) {
		if (*part < '0' || *part > '9')
			return NULL;
		i = i * 10 + (size_t)(*part - '0');
	}
	return json_array_get(array, i);
}

static void walk(const struct policy_json *want, const char *pointer, const json_t *at,
                 struct tally *tally);

/* All that a "*" stands for; nothing, if there is nothing. */
static void
walk_all(const struct policy_json *want, const char *pointer, const json_t *at,
         struct tally *tally)
{
	const json_t *value;
	const char *key;
	size_t i;

	if (json_array_size(at) == 0 && json_object_size(at) == 0) {
		count_value(want, NULL, tally);
		return;
	}
	json_array_foreach((json_t *)(uintptr_t)at, i, value)
		walk(want, pointer, value, tally);
	if (json_is_object(at))
		json_object_foreach((json_t *)(uintptr_t)at, key, value)
			walk(want, pointer, value, tally);
}

/* Depth is bounded by the parts that POLICY_TEXT_MAX has room for. */
static void
walk(const struct policy_json *want, const char *pointer, const json_t *at,
     struct tally *tally)
{
	char part[POLICY_TEXT_MAX];
	bool all = pointer[0] == '/' && pointer[1] == '*' &&
	           (pointer[2] == '/' || pointer[2] == '\0');

	if (*pointer == '\0' || at == NULL) {
		count_value(want, at, tally);
		return;
	}
	next_part(&pointer, part);
	if (all)
		walk_all(want, pointer, at, tally);
	else
		walk(want, pointer, json_is_array(at) ? element(at, part) : json_object_get(at, part),
		     tally);
}

enum body_fit
body_json_fits(const json_t *root, const struct policy_body *rule, bool every)
{
	if (root == NULL)
		return BODY_UNREADABLE;
	for (size_t i = 0; i < rule->n_json; i++) {
		struct tally tally = {0};

		walk(&rule->json[i], rule->json[i].pointer, root, &tally);
		if (every ? tally.fit < tally.found : tally.fit == 0)
			return BODY_MISFITS;
	}
	return BODY_FITS;
}
