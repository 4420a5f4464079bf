/* policy_guards.c - see policy_guards.h. */
#include "policy/policy_guards.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/utf8.h"
#include "policy/policy_rule.h"
#include "policy/policy_state.h"

const char *const policy_guard_words[] = { "allow", "flag", "ask", "refuse", NULL };
const char *const policy_check_words[] = { "secrets", "injection", "binary", NULL };

enum policy_guard
policy_check_default(enum policy_check check)
{
	static const enum policy_guard defaults[POLICY_CHECKS] = {
		[POLICY_CHECK_SECRETS] = POLICY_GUARD_REFUSE,
		[POLICY_CHECK_INJECTION] = POLICY_GUARD_FLAG,
		[POLICY_CHECK_BINARY] = POLICY_GUARD_ALLOW,
	};

	return defaults[check];
}

/* ---- names that are taken for the same ---- */

#define OTHER '\1'                      /* any characters that are not in ASCII */

/* Characters whose common form is in ASCII. */
static const struct {
	uint32_t code;
	const char *text;
} plain[] = {
	{ 0xdf, "ss" }, { 0x17f, "s" }, { 0x1e9e, "ss" }, { 0x212a, "k" }, { 0xfb00, "ff" }, { 0xfb01, "fi" }, { 0xfb02, "fl" },
	{ 0xfb03, "ffi" }, { 0xfb04, "ffl" }, { 0xfb05, "st" }, { 0xfb06, "st" }, { 0x37e, ";" }, { 0x1fef, "`" },
};

/* Characters that nobody sees, and that some file system ignores. */
static bool
is_ignored(uint32_t code)
{
	return code == 0xad || code == 0x34f || code == 0x61c || (code >= 0x115f && code <= 0x1160) ||
	       (code >= 0x17b4 && code <= 0x17b5) || (code >= 0x180b && code <= 0x180f) || (code >= 0x200b && code <= 0x200f) ||
	       (code >= 0x202a && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0x3164 ||
	       (code >= 0xfe00 && code <= 0xfe0f) || code == 0xfeff || code == 0xffa0 || (code >= 0xe0000 && code <= 0xe0fff);
}

/* These make one character with the letter before them. */
static bool
is_combining(uint32_t code)
{
	return (code >= 0x300 && code <= 0x36f) || (code >= 0x1ab0 && code <= 0x1aff) || (code >= 0x1dc0 && code <= 0x1dff) ||
	       (code >= 0x20d0 && code <= 0x20ff) || (code >= 0xfe20 && code <= 0xfe2f);
}

static size_t
put_code(char *ret, size_t at, uint32_t code)
{
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (plain[i].code == code) {
			memcpy(ret + at, plain[i].text, strlen(plain[i].text));
			return at + strlen(plain[i].text);
		}
	/* Which letter it is does not matter: rather guard too many names than too few. */
	if (at > 0 && (ret[at - 1] == OTHER || (is_combining(code) && ret[at - 1] != '/'))) {
		ret[at - 1] = OTHER;
		return at;
	}
	ret[at] = OTHER;
	return at + 1;
}

/* NTFS drops blanks and dots at the end of a name, and a ':' begins the name of a stream. */
static size_t
end_part(char *ret, size_t begin, size_t at)
{
	const char *stream = at > begin + 1 ? memchr(ret + begin + 1, ':', at - begin - 1) : NULL;

	if (stream != NULL)
		at = (size_t)(stream - ret);
	while (at > begin + 1 && (ret[at - 1] == '.' || ret[at - 1] == ' '))
		at--;
	return at;
}

void
policy_guards_fold(const char *text, char *ret)
{
	size_t len = strlen(text), at = 0, begin = 0, n;
	uint32_t code = 0;

	for (size_t i = 0; i < len; i += n) {
		char c = text[i];

		n = 1;
		if (c == '/' || c == '\\') {
			at = end_part(ret, begin, at);
			ret[at++] = '/';
			begin = at;
		} else if ((unsigned char)c < 0x80) {
			ret[at++] = c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
		} else {
			n = utf8_next(text + i, len - i, &code);
			code = n == 0 ? 0xfffd : code;
			n = n == 0 ? 1 : n;
			if (!is_ignored(code))
				at = put_code(ret, at, code);
		}
	}
	at = end_part(ret, begin, at);
	ret[at] = '\0';
}

/* Of FOLDED itself, or of a folder that it is in. */
static bool
is_guarded(const char *glob, const char *folded)
{
	for (size_t at = 0;; at++) {
		at += strcspn(folded + at, "/");
		if (policy_glob_path(glob, folded, at))
			return true;
		if (folded[at] == '\0')
			return false;
	}
}

/* Some path beneath FOLDED could match GLOB: the beginning of GLOB, up to a '/' or a "**", matches FOLDED.  A "**" in front is
 * no such beginning, because whatever it finds through a link has a guard where it is. */
static bool
could_hold(const char *glob, const char *folded)
{
	OWN(freep) char *begin = strdup(glob);
	bool found = begin == NULL;

	for (size_t i = 1; !found && glob[i] != '\0'; i++)
		if (glob[i] == '/' || (glob[i] == '*' && glob[i - 1] == '*' && i > 1)) {
			const size_t end = glob[i] == '/' ? i : i + 1;
			const char was = begin[end];

			begin[end] = '\0';
			found = strcmp(begin, "**") != 0 && policy_glob_path(begin, folded, strlen(folded));
			begin[end] = was;
		}
	return found;
}

static enum policy_guard
find_guard(const struct policy_guards *guards, const char *path, bool link)
{
	enum policy_guard found = POLICY_GUARD_ALLOW;
	OWN(freep) char *folded = malloc(strlen(path) + 1);

	if (folded == NULL)
		return POLICY_GUARD_REFUSE;
	policy_guards_fold(path, folded);
	for (size_t i = 0; i < guards->n_paths; i++) {
		const struct policy_guard_path *p = &guards->paths[i];

		if (p->guard > found && (is_guarded(p->glob, folded) || (link && could_hold(p->glob, folded))))
			found = p->guard;
	}
	return found;
}

enum policy_guard
policy_guards_path(const struct policy_guards *guards, const char *path)
{
	return find_guard(guards, path, false);
}

enum policy_guard
policy_guards_link(const struct policy_guards *guards, const char *path)
{
	return find_guard(guards, path, true);
}

/* ---- reading ---- */

void
policy_guards_free(struct policy_guards *g)
{
	for (size_t i = 0; i < g->n_paths; i++)
		free(g->paths[i].glob);
	free(g->paths);
	*g = (struct policy_guards){0};
}

static int
add_path(struct policy_guards *g, enum policy_guard guard, const char *path)
{
	struct policy_guard_path *more;
	char *glob;

	if (!policy_state_inner_ok(path))
		return -EINVAL;
	more = realloc(g->paths, (g->n_paths + 1) * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	g->paths = more;
	glob = malloc(strlen(path) + 1);
	if (glob == NULL)
		return -ENOMEM;
	policy_guards_fold(path, glob);
	more[g->n_paths++] = (struct policy_guard_path){ guard, glob };
	return 0;
}

static int
read_check(struct policy_guards *g, enum policy_check check, const char *word)
{
	for (int i = 0; policy_guard_words[i] != NULL; i++)
		if (strcmp(word, policy_guard_words[i]) == 0) {
			g->checks[check] = (enum policy_guard)i;
			return 0;
		}
	return -EINVAL;
}

static int
read_line(struct policy_guards *g, char *line)
{
	const struct { const char *word; uint64_t *number; } numbers[] = {
		{ "size", &g->bytes }, { "files", &g->files }, { "growth", &g->growth } };
	char *value = strchr(line, ' ');

	if (value == NULL)
		return -EINVAL;
	*value++ = '\0';
	if (strcmp(line, "protect") == 0 || strcmp(line, "ask") == 0)
		return add_path(g, line[0] == 'a' ? POLICY_GUARD_ASK : POLICY_GUARD_REFUSE, value);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (strcmp(line, numbers[i].word) == 0)
			return num_parse_count(value, 1, INT64_MAX, numbers[i].number, NULL);
	for (int i = 0; i < POLICY_CHECKS; i++)
		if (strcmp(line, policy_check_words[i]) == 0)
			return read_check(g, (enum policy_check)i, value);
	return -EINVAL;
}

int
policy_guards_read(const char *text, struct policy_guards *ret_guards, struct err *err)
{
	OWN(policy_guards_free) struct policy_guards g = {0};
	OWN(freep) char *copy = strlen(text) <= POLICY_STATE_GUARDS_MAX ? strdup(text) : NULL;
	int r = copy == NULL ? -EINVAL : 0;

	for (int i = 0; i < POLICY_CHECKS; i++)
		g.checks[i] = policy_check_default((enum policy_check)i);
	for (char *line = copy, *end; r == 0 && *line != '\0'; line = end + 1) {
		end = strchr(line, '\n');
		if (end == NULL) {
			r = -EINVAL;
			break;
		}
		*end = '\0';
		r = read_line(&g, line);
	}
	if (r < 0)
		return err_set(err, -r, "the guards of a state are malformed");
	*ret_guards = g;
	g = (struct policy_guards){0};
	return 0;
}
