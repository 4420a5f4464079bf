/* body_json.c - matches values in a JSON body, by JSON pointers. */
#include "inspect/body.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/own.h"
#include "http/json_walk.h"

/* ---- parsing ---- */

static size_t memory_used;

/* Small values take a hundred times as much memory as their text. */
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

/* Seed the hash, so that names cannot be made to collide.  By default the library would open a file
 * for that. */
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

static int
compare_names(const void *a, const void *b)
{
	const char *left = *(const char *const *)a, *right = *(const char *const *)b;
	const char *left_end = left + strlen(left), *right_end = right + strlen(right);
	unsigned char l, r;

	do {
		l = json_walk_fold(&left, left_end);
		r = json_walk_fold(&right, right_end);
	} while (l == r && l != '\0');
	return l - r;
}

static bool
names_differ(json_t *object)
{
	size_t n = json_object_size(object), i = 0;
	OWN(freep) const char **names = NULL;
	const json_t *value;
	const char *name;

	if (n < 2)
		return true;
	names = calloc(n, sizeof(*names));
	if (names == NULL)
		return false;
	json_object_foreach(object, name, value)
		names[i++] = name;
	qsort(names, n, sizeof(*names), compare_names);
	for (i = 1; i < n; i++)
		if (compare_names(&names[i - 1], &names[i]) == 0)
			return false;
	return true;
}

/* The parser limits the depth. */
static bool
all_names_differ(json_t *at)
{
	json_t *value;
	const char *name;
	size_t i;

	if (json_is_object(at)) {
		if (!names_differ(at))
			return false;
		json_object_foreach(at, name, value)
			if (!all_names_differ(value))
				return false;
	}
	json_array_foreach(at, i, value)
		if (!all_names_differ(value))
			return false;
	return true;
}

json_t *
body_json_parse(const char *data, size_t len)
{
	json_t *root;

	prepare();
	root = json_loadb(data, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL |
	                             JSON_DECODE_INT_AS_REAL, NULL);
	if (root != NULL && !all_names_differ(root)) {
		json_decref(root);
		root = NULL;
	}
	return root;
}

/* ---- pointers ---- */

const json_t *
body_json_get(const json_t *object, const char *name, bool *odd)
{
	const json_t *value = json_object_get(object, name);
	const char *other;

	if (value != NULL || !json_is_object(object))
		return value;
	json_object_foreach((json_t *)(uintptr_t)object, other, value)
		*odd = *odd || compare_names(&other, &name) == 0;
	return NULL;
}

struct tally {
	size_t found, fit;
	bool odd;
	body_json_judge *judge;         /* or NULL: the values of the rule */
	void *arg;
};

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
	if (tally->judge != NULL)
		tally->fit += tally->judge(tally->arg, got);
	for (size_t i = 0; tally->judge == NULL && i < want->n_values; i++) {
		if (value_fits(&want->values[i], got)) {
			tally->fit++;
			return;
		}
	}
}

/* One part of a pointer, with ~1 and ~0 undone; *pointer is advanced to the next "/" or the end. */
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

/* RFC 6901: digits without leading zeros; anything else matches no element. */
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

/* Visit everything that a "*" stands for, possibly nothing. */
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

/* The depth is limited by the parts that fit into POLICY_TEXT_MAX. */
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
		walk(want, pointer, json_is_array(at) ? element(at, part) :
		     body_json_get(at, part, &tally->odd), tally);
}

enum body_fit
body_json_fits_at(const json_t *root, const struct policy_json *want, bool every, body_json_judge *judge, void *arg)
{
	struct tally tally = { .judge = judge, .arg = arg };

	walk(want, want->pointer, root, &tally);
	if (tally.odd)
		return BODY_UNREADABLE;
	return (every ? tally.fit < tally.found : tally.fit == 0) ? BODY_MISFITS : BODY_FITS;
}

enum body_fit
body_json_fits(const json_t *root, const struct policy_body *rule, bool every)
{
	if (root == NULL)
		return BODY_UNREADABLE;
	for (size_t i = 0; i < rule->n_json; i++) {
		enum body_fit fit = body_json_fits_at(root, &rule->json[i], every, NULL, NULL);

		if (fit != BODY_FITS)
			return fit;
	}
	return BODY_FITS;
}
