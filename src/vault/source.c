/* source.c - references to values, and the fields in the text that they give. */
#include "vault/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"

void
secret_values_free(struct secret_values *v)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		guard_free(&v->field[i]);
	v->expires = 0;
}

/* ---- references ---- */

int
source_check(const char *from, struct err *err)
{
	struct source_words words;

	if (strlen(from) > SOURCE_TEXT_MAX)
		return err_set(err, EINVAL, "this is longer than %d bytes", SOURCE_TEXT_MAX);
	if (strncmp(from, "env:", 4) == 0) {
		for (const char *c = from + 4; *c != '\0'; c++)
			if (!isalnum((unsigned char)*c) && *c != '_')
				return err_set(err, EINVAL, "behind 'env:' stands the name of a variable");
		return from[4] != '\0' ? 0 : err_set(err, EINVAL, "'env:' names no variable");
	}
	if (strncmp(from, "file:", 5) == 0)
		return from[5] == '/' ? 0 : err_set(err, EINVAL, "behind 'file:' stands a path from '/' on");
	if (strncmp(from, "cmd:", 4) == 0)
		return source_split(from + 4, &words, err);
	return err_set(err, EINVAL, "a value comes from env:NAME, file:PATH or cmd:PROGRAM ARGS");
}

static int
fetch_file(const char *path, struct guard *g, struct err *err)
{
	/* Through an agent's link it could be any of the operator's files, sent wherever the secret
	 * may go. */
	OWN(closep) int fd = trust_open(TRUST_SECRET_FILE, path, err);
	struct stat st;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot look at '%s', where the value is", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "'%s', where the value should be, is not a file", path);
	if ((st.st_mode & 022) != 0)
		return err_set(err, EPERM, "others may write '%s', where the value is: `chmod go-w` it", path);
	r = guard_read(g, fd, err);
	return r == 0 ? 0 : err_wrap(err, "'%s'", path);
}

int
source_fetch(const char *from, struct guard *ret_text, struct err *err)
{
	OWN(guard_free) struct guard g = {0};
	const char *value;
	int r = source_check(from, err);

	r = r == 0 ? guard_alloc(&g, SOURCE_OUTPUT_MAX, err) : r;
	if (r < 0)
		return r;
	if (strncmp(from, "env:", 4) == 0) {
		value = getenv(from + 4);
		if (value == NULL || *value == '\0')
			return err_set(err, ENOENT, "the variable %s, where the value should be, is not set",
			               from + 4);
		if (strlen(value) > g.cap)
			return err_set(err, EFBIG, "the value in %s is too long", from + 4);
		g.len = strlen(value);
		memcpy(g.at, value, g.len + 1);
	} else if (strncmp(from, "file:", 5) == 0) {
		r = fetch_file(from + 5, &g, err);
	} else {
		r = source_run(TRUST_SECRET_COMMAND, from + 4, SOURCE_TIMEOUT_MS, &g, err);
	}
	if (r < 0)
		return r;
	guard_chomp(&g);
	if (g.len == 0)
		return err_set(err, ENODATA, "'%.64s' gave no value", from);
	*ret_text = guard_take(&g);
	return 0;
}

/* ---- time ---- */

uint64_t
source_due(uint64_t fetched, uint64_t expires)
{
	uint64_t life = expires > fetched ? expires - fetched : 0;
	uint64_t early = life / 10 < 300 ? life / 10 : 300;

	return expires - early;
}

uint64_t
source_time(const char *text)
{
	struct tm tm = {0};
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int hours, minutes, n = 0;
	time_t at;

	if (rest == NULL)
		return 0;
	if (*rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	at = timegm(&tm);
	if ((*rest == '+' || *rest == '-') && sscanf(rest + 1, "%2d:%2d%n", &hours, &minutes, &n) == 2 &&
	    n == 5 && hours >= 0 && minutes >= 0 && rest[6] == '\0')
		at -= (*rest == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
	else if (strcmp(rest, "Z") != 0 && strcmp(rest, "z") != 0)
		return 0;
	return at > 0 ? (uint64_t)at : 0;
}

/* ---- JSON ---- */

/* The parser's copies of a value are wiped when it frees them. */
static void
wipe_free(void *p)
{
	if (p != NULL)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

OWN_BY(json_freep, json_t *, json_decref)

/* RFC 6901: "~1" and "~0" are undone. */
static json_t *
find_member(json_t *json, const char *pointer)
{
	char name[256];

	while (json != NULL && *pointer == '/') {
		size_t n = 0;

		for (pointer++; *pointer != '\0' && *pointer != '/' && n < sizeof(name) - 1; pointer++) {
			name[n] = *pointer;
			if (*pointer == '~' && (pointer[1] == '0' || pointer[1] == '1'))
				name[n] = *++pointer == '0' ? '~' : '/';
			n++;
		}
		name[n] = '\0';
		if (json_is_array(json) && isdigit((unsigned char)name[0]))
			json = json_array_get(json, strtoul(name, NULL, 10));
		else
			json = json_object_get(json, name);
	}
	return *pointer == '\0' ? json : NULL;
}

static int
take_expiry(const struct secret *s, json_t *root, uint64_t now, uint64_t *ret_expires,
            struct err *err)
{
	json_t *member = find_member(root, s->expires_member);
	json_int_t number = json_is_integer(member) ? json_integer_value(member) : 0;

	if (json_is_string(member))
		*ret_expires = source_time(json_string_value(member));
	else if (number > 0)
		/* A lifetime, or a point in time, perhaps in milliseconds: no lifetime is thirty years. */
		*ret_expires = (uint64_t)number < 1000000000 ? now + (uint64_t)number :
		               (uint64_t)number < 100000000000 ? (uint64_t)number : (uint64_t)number / 1000;
	else
		*ret_expires = 0;
	return *ret_expires > 0 ? 0 : err_set(err, EBADMSG, "what gives '%s' does not say under %.64s when "
	                                      "it ends", s->name, s->expires_member);
}

static int
take_member(const struct secret *s, json_t *root, size_t field, struct secret_values *values,
            struct err *err)
{
	json_t *member = find_member(root, s->members[field]);
	size_t len = json_string_length(member);

	if (json_is_null(member) || (member == NULL && field != SECRET_SECRET))
		return 0;
	if (!json_is_string(member) || len == 0 || len > SECRET_VALUE_MAX)
		return err_set(err, EBADMSG, "what gives '%s' has no text under %.64s", s->name,
		               s->members[field]);
	return guard_copy(&values->field[field], json_string_value(member), len, err);
}

static int
fields_of_json(const struct secret *s, const struct guard *text, uint64_t now,
               struct secret_values *values, struct err *err)
{
	OWN(json_freep) json_t *root = NULL;
	int r = 0;

	json_set_alloc_funcs(malloc, wipe_free);
	root = json_loadb(text->at, text->len, JSON_REJECT_DUPLICATES, NULL);
	if (root == NULL)
		return err_set(err, EBADMSG, "what gives '%s' is not JSON", s->name);
	for (size_t i = 0; r == 0 && i < SECRET_FIELDS; i++)
		if (*s->members[i] != '\0')
			r = take_member(s, root, i, values, err);
	if (r == 0 && *s->expires_member != '\0')
		r = take_expiry(s, root, now, &values->expires, err);
	return r;
}

/* ---- lines ---- */

static int
fields_of_lines(const struct secret *s, const struct guard *text, struct secret_values *values,
                struct err *err)
{
	const char *at = text->at;
	size_t n, left = text->len, field = SECRET_ID;
	int r = 0;

	for (; r == 0 && left > 0 && field < SECRET_FIELDS; field++) {
		const char *end = memchr(at, '\n', left);

		n = end != NULL ? (size_t)(end - at) : left;
		r = guard_copy(&values->field[field], at, n, err);
		if (r == 0) {
			guard_chomp(&values->field[field]);
			if (values->field[field].len == 0)
				guard_free(&values->field[field]);
		}
		left -= end != NULL ? n + 1 : n;
		at += end != NULL ? n + 1 : n;
	}
	if (r == 0 && (left > 0 || values->field[SECRET_SECRET].len == 0))
		return err_set(err, EINVAL, "'%s' (%s) is an id, a secret and perhaps a token, a line each%s",
		               s->name, s->scheme->name,
		               *s->members[SECRET_SECRET] != '\0' ? "; or the JSON that its service gives" : "");
	return r;
}

static bool
is_one_line(const struct guard *text)
{
	return memchr(text->at, '\n', text->len) == NULL;
}

static int
check_fields(const struct secret *s, const struct secret_values *values, struct err *err)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++) {
		if (values->field[i].len > SECRET_VALUE_MAX)
			return err_set(err, EFBIG, "the %s of '%s' is over %d bytes", secret_field_names[i],
			               s->name, SECRET_VALUE_MAX);
		if (values->field[i].len > 0 &&
		    memchr(values->field[i].at, '\0', values->field[i].len) != NULL)
			return err_set(err, EINVAL, "there is a NUL in the %s of '%s'", secret_field_names[i],
			               s->name);
	}
	if (values->field[SECRET_SECRET].len == 0)
		return err_set(err, EINVAL, "the value of '%s' is empty", s->name);
	if (!s->scheme->has_lines && s->places != SECRET_IN_BODY &&
	    !is_one_line(&values->field[SECRET_SECRET]))
		return err_set(err, EINVAL, "the value of '%s' (%s) is one line, and this has several: where it "
		               "goes, a line's end would be the end of it", s->name, s->scheme->name);
	if (secret_wants_id(s) && *s->id == '\0' && values->field[SECRET_ID].len == 0)
		return err_set(err, EINVAL, "'%s' (%s) needs an id besides its secret: in a line before it, or "
		               "as `id:` (--id)", s->name, s->scheme->name);
	return 0;
}

int
source_fields(const struct secret *s, const struct guard *text, uint64_t now,
              struct secret_values *ret_values, struct err *err)
{
	OWN(secret_values_free) struct secret_values values = {0};
	bool members = *s->members[SECRET_SECRET] != '\0', is_json = text->len > 0 && text->at[0] == '{';
	int r;

	if ((members && is_json) || *s->expires_member != '\0')
		r = fields_of_json(s, text, now, &values, err);
	else if (secret_wants_id(s) && *s->id == '\0')
		r = is_one_line(text) ? guard_copy(&values.field[SECRET_SECRET], text->at, text->len, err)
		                      : fields_of_lines(s, text, &values, err);
	else
		r = guard_copy(&values.field[SECRET_SECRET], text->at, text->len, err);
	if (r == 0 && values.expires == 0 && s->expires > 0)
		values.expires = now + s->expires;
	r = r == 0 ? check_fields(s, &values, err) : r;
	if (r < 0)
		return r;
	*ret_values = values;
	values = (struct secret_values){0};
	return 0;
}
