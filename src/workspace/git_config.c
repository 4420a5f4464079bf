/* git_config.c - see git_config.h, and git-config(1), "Syntax". */
#include "workspace/git_config.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#define END (-1)

struct reader {
	const char *at, *end;
	size_t line, bad;               /* BAD: the first invalid line, 0 if none */
	char section[GIT_CONFIG_NAME_MAX], key[GIT_CONFIG_NAME_MAX];
	char *value;                    /* has room for the whole text */
};

/* A line may end in CR LF. */
static int
peek(const struct reader *r)
{
	if (r->at == r->end)
		return END;
	if (r->at[0] == '\r' && r->at + 1 < r->end && r->at[1] == '\n')
		return '\n';
	return (unsigned char)r->at[0];
}

static int
next(struct reader *r)
{
	int c = peek(r);

	if (c == END)
		return END;
	r->at += c == '\n' && r->at[0] == '\r' ? 2 : 1;
	r->line += c == '\n';
	return c;
}

static void
skip_line(struct reader *r)
{
	int c;

	do
		c = next(r);
	while (c != '\n' && c != END);
}

static void
skip_blanks(struct reader *r)
{
	while (peek(r) != '\n' && peek(r) != END && isspace(peek(r)))
		(void)next(r);
}

/* Letters, digits and '-': the characters of git's names. */
static void
read_name(struct reader *r, char name[GIT_CONFIG_NAME_MAX])
{
	size_t n = 0;

	for (; isalnum(peek(r)) || peek(r) == '-'; n++) {
		int c = next(r);

		if (n < GIT_CONFIG_NAME_MAX)
			name[n] = (char)tolower(c);
	}
	name[n < GIT_CONFIG_NAME_MAX ? n : 0] = '\0';
}

/* Behind the '['.  [section], [section "sub"] or [section.sub]. */
static bool
read_section(struct reader *r)
{
	bool quoted = false;
	int c;

	read_name(r, r->section);
	for (c = next(r); c != '\n' && c != END && (quoted || c != ']'); c = next(r)) {
		if (c == '"')
			quoted = !quoted;
		else if (c == '\\' && quoted && peek(r) != '\n')
			(void)next(r);
	}
	return c == ']';
}

/* Behind a '\\': the character that it stands for, END for nothing, 0 if it is invalid. */
static int
read_escape(struct reader *r)
{
	switch (peek(r)) {
	case '\n':
		(void)next(r);
		return END;
	case 't':
		(void)next(r);
		return '\t';
	case 'b':
		(void)next(r);
		return '\b';
	case 'n':
		(void)next(r);
		return '\n';
	case '\\':
	case '"':
		return next(r);
	default:
		return 0;
	}
}

/* Behind the '='. */
static bool
read_value(struct reader *r)
{
	size_t n = 0, keep = 0;         /* trailing blanks do not count */
	bool quoted = false;
	int c;

	skip_blanks(r);
	while ((c = peek(r)) != '\n' && c != END) {
		if (!quoted && (c == '#' || c == ';'))
			break;
		(void)next(r);
		if (c == '"') {
			quoted = !quoted;
			keep = n;
			continue;
		}
		if (c == '\\' && (c = read_escape(r)) == END)
			continue;
		if (c == 0)
			return false;
		r->value[n++] = (char)c;
		if (quoted || !isspace(c))
			keep = n;
	}
	r->value[keep] = '\0';
	return !quoted;
}

static bool
read_key(struct reader *r)
{
	read_name(r, r->key);
	skip_blanks(r);
	r->value[0] = '\0';
	if (peek(r) == '\n' || peek(r) == END || peek(r) == '#' || peek(r) == ';')
		return true;
	return next(r) == '=' && read_value(r);
}

int
git_config_each(const char *text, size_t len, git_config_visit *visit, void *arg,
                struct err *err)
{
	OWN(freep) char *value = malloc(len + 1);
	struct reader r = { .at = text, .end = text + len, .line = 1, .value = value };
	int said = 0;

	if (value == NULL)
		return err_errno(err, "cannot read a git configuration");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		r.at += 3;
	while (said >= 0 && peek(&r) != END) {
		size_t line = r.line;
		bool good = true;

		skip_blanks(&r);
		if (peek(&r) == '[') {
			(void)next(&r);
			good = read_section(&r);
		} else if (isalpha(peek(&r))) {
			good = read_key(&r);
			if (good)
				said = visit(arg, r.section, r.key, value);
		} else {
			good = peek(&r) == '\n' || peek(&r) == END || peek(&r) == '#' || peek(&r) == ';';
			skip_line(&r);
		}
		if (good)
			continue;
		r.bad = r.bad != 0 ? r.bad : line;
		/* The parser may already be at the end of the invalid line. */
		if (r.line == line)
			skip_line(&r);
	}
	if (said < 0)
		return said;
	return r.bad == 0 ? 0 : err_set(err, EINVAL, "line %zu is not as git writes it", r.bad);
}
