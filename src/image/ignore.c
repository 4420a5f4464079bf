/* ignore.c - see ignore.h. */
#include "image/ignore.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

struct match {
	unsigned steps;
};

/* "[a-z]", "[^a-z]": *AT is behind it afterwards.  A bracket that is not closed matches nothing. */
static bool
match_class(const char **at, char c)
{
	const char *p = *at + 1;
	const bool negated = *p == '^' || *p == '!';
	bool found = false, first = true;

	for (p += negated; *p != '\0' && (first || *p != ']'); first = false) {
		char low, high;

		p += *p == '\\' && p[1] != '\0';
		low = high = *p++;
		if (p[0] == '-' && p[1] != ']' && p[1] != '\0') {
			p += 1 + (p[1] == '\\' && p[2] != '\0');
			high = *p++;
		}
		found = found || ((unsigned char)low <= (unsigned char)c && (unsigned char)c <= (unsigned char)high);
	}
	if (*p != ']')
		return false;
	*at = p + 1;
	return found != negated;
}

static bool match_from(struct match *m, const char *p, const char *s);

/* "**" matches any number of parts, and "**" within a part any text. */
static bool
match_any_parts(struct match *m, const char *p, const char *s)
{
	p += strspn(p, "*");
	if (*p == '/') {
		/* None at all. */
		if (match_from(m, p + 1, s))
			return true;
		for (const char *slash = s; (slash = strchr(slash, '/')) != NULL; slash++)
			if (match_from(m, p + 1, slash + 1))
				return true;
		return false;
	}
	for (;; s++) {
		if (match_from(m, p, s))
			return true;
		if (*s == '\0')
			return false;
	}
}

static bool
match_from(struct match *m, const char *p, const char *s)
{
	for (; *p != '\0'; s++) {
		if (++m->steps > IGNORE_STEPS_MAX)
			return false;
		if (p[0] == '*' && p[1] == '*')
			return match_any_parts(m, p, s);
		if (*p == '*') {
			for (;; s++) {
				if (match_from(m, p + 1, s))
					return true;
				if (*s == '\0' || *s == '/')
					return false;
			}
		}
		if (*s == '\0')
			return false;
		if (*p == '?' && *s != '/') {
			p++;
		} else if (*p == '[' && *s != '/') {
			if (!match_class(&p, *s))
				return false;
		} else {
			p += *p == '\\' && p[1] != '\0';
			if (*p++ != *s)
				return false;
		}
	}
	return *s == '\0';
}

bool
ignore_match(const char *pattern, const char *path)
{
	struct match m = {0};

	return match_from(&m, pattern, path);
}

bool
ignore_is_pattern(const char *text)
{
	return strpbrk(text, "*?[") != NULL;
}

/* Without slashes around it, and without "." and "..", which cannot leave the top. */
static char *
tidy(const char *text, size_t len)
{
	char *all = calloc(1, len + 1), *out = all;
	size_t part;

	if (all == NULL)
		return NULL;
	for (size_t i = 0; i < len; i += part + 1) {
		const char *at = text + i, *slash = memchr(at, '/', len - i);

		part = slash != NULL ? (size_t)(slash - at) : len - i;
		if (part == 0 || (part == 1 && at[0] == '.'))
			continue;
		if (part == 2 && at[0] == '.' && at[1] == '.') {
			while (out > all && *--out != '/')
				;
			*out = '\0';
			continue;
		}
		if (out > all)
			*out++ = '/';
		memcpy(out, at, part);
		out += part;
		*out = '\0';
	}
	return all;
}

static int
add_line(struct ignore *ignore, const char *line, size_t len, struct err *err)
{
	struct ignore_pattern *more;
	bool except;

	if (len > 0 && line[0] == '#')
		return 0;
	while (len > 0 && isspace((unsigned char)line[len - 1]))
		len--;
	while (len > 0 && isspace((unsigned char)line[0])) {
		line++;
		len--;
	}
	except = len > 0 && line[0] == '!';
	line += except;
	len -= except;
	if (len == 0)
		return 0;
	more = ignore->n >= IGNORE_PATTERNS_MAX ? NULL : reallocarray(ignore->list, ignore->n + 1, sizeof(*more));
	if (more == NULL)
		return err_set(err, E2BIG, "it has over %d patterns", IGNORE_PATTERNS_MAX);
	ignore->list = more;
	more[ignore->n] = (struct ignore_pattern){ tidy(line, len), except };
	if (more[ignore->n].text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	ignore->n++;
	return 0;
}

int
ignore_parse(const char *text, size_t len, struct ignore *ret_ignore, struct err *err)
{
	OWN(ignore_free) struct ignore ignore = {0};
	int r = 0;

	if (len > 0 && memchr(text, '\0', len) != NULL)
		return err_set(err, EINVAL, "it is not a text");
	for (size_t at = 0; r == 0 && at < len;) {
		const char *newline = memchr(text + at, '\n', len - at);
		const size_t line = newline != NULL ? (size_t)(newline - text) - at : len - at;

		r = add_line(&ignore, text + at, line, err);
		at += line + 1;
	}
	if (r < 0)
		return r;
	*ret_ignore = ignore;
	ignore = (struct ignore){0};
	return 0;
}

void
ignore_free(struct ignore *ignore)
{
	for (size_t i = 0; i < ignore->n; i++)
		free(ignore->list[i].text);
	free(ignore->list);
	*ignore = (struct ignore){0};
}

/* PATH, or a folder that it is in. */
static bool
match_within(const char *pattern, const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
		if ((size_t)(slash - path) >= sizeof(part))
			return false;
		memcpy(part, path, (size_t)(slash - path));
		part[slash - path] = '\0';
		if (ignore_match(pattern, part))
			return true;
	}
	return ignore_match(pattern, path);
}

bool
ignore_is_out(const struct ignore *ignore, const char *path)
{
	bool out = false;

	for (size_t i = 0; i < ignore->n; i++)
		if (out == ignore->list[i].except && match_within(ignore->list[i].text, path))
			out = !out;
	return out;
}

bool
ignore_may_return(const struct ignore *ignore, const char *path)
{
	const size_t len = strlen(path);

	for (size_t i = 0; i < ignore->n; i++) {
		const char *text = ignore->list[i].text;

		if (ignore->list[i].except && (ignore_is_pattern(text) ||
		                               (strncmp(text, path, len) == 0 && text[len] == '/')))
			return true;
	}
	return false;
}
