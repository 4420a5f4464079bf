/* state_name.c - which names states, branches and tags may have, and which names of files are never stored. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "state/state_parts.h"

bool
state_is_name(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len >= STATE_NAME_MAX || !isalnum((unsigned char)name[0]) || name[len - 1] == '.' ||
	    strstr(name, "..") != NULL || (len >= 5 && strcasecmp(name + len - 5, ".lock") == 0))
		return false;
	for (const char *p = name; *p != '\0'; p++)
		if (!isascii((unsigned char)*p) || (!isalnum((unsigned char)*p) && strchr("._-", *p) == NULL))
			return false;
	return true;
}

int
state_check_name(const char *what, const char *name, struct err *err)
{
	return state_is_name(name) ? 0 :
	       err_set(err, EINVAL, "'%.80s' cannot be the name of a %s: use up to %d letters, digits, '.', '_' and '-', "
	               "beginning with a letter or digit", name, what, STATE_NAME_MAX - 1);
}

bool
state_is_id(const char *text)
{
	return strlen(text) == STATE_ID && strspn(text, "0123456789abcdef") == STATE_ID;
}

/* ---- names of files ---- */

/* Characters that HFS+ ignores when it compares names. */
static bool
is_ignored(uint32_t code)
{
	return (code >= 0x200c && code <= 0x200f) || (code >= 0x202a && code <= 0x202e) ||
	       (code >= 0x206a && code <= 0x206f) || code == 0xfeff;
}

#define LONG_S 0x17f

/* The name as HFS+ and APFS compare it: without these, in lower case.  The rest of a longer one does not matter. */
static void
fold(const char *name, size_t len, char *ret, size_t size)
{
	size_t out = 0, n;
	uint32_t code = 0;

	for (size_t i = 0; i < len && out + 1 < size; i += n) {
		n = utf8_next(name + i, len - i, &code);
		if (n == 0)
			n = 1;
		else if (n > 1 && is_ignored(code))
			continue;
		/* APFS takes a long s for an s.  The Kelvin sign and its like fold to no letter of these names. */
		if (code == LONG_S && n > 1) {
			ret[out++] = 's';
			continue;
		}
		for (size_t k = 0; k < n && out + 1 < size; k++)
			ret[out++] = (char)tolower((unsigned char)name[i + k]);
	}
	ret[out] = '\0';
}

/* NTFS drops blanks and dots at the end, and a stream's name begins with ':'. */
static bool
is_tail(const char *s)
{
	return s[strspn(s, ". ")] == '\0' || s[strspn(s, ". ")] == ':';
}

/* "PREFIX~1": the short name that NTFS gives a long one.  Few letters remain if there are many of them. */
static bool
is_short(const char *name, const char *prefix)
{
	size_t same = 0;

	while (prefix[same] != '\0' && name[same] == prefix[same])
		same++;
	return same >= 2 && name[same] == '~' && isdigit((unsigned char)name[same + 1]);
}

static const struct {
	const char *name;
	const char *shorts[2];
	const char *why;
} never[] = {
	{ ".git", { "git", NULL }, "a folder of git's own, by this name or one that some file system takes for it" },
	{ ".gitmodules", { "gitmod", "gi7eba" }, "git would take repositories to fetch from it" },
	{ ".gitattributes", { "gitatt", "gi7d29" }, "git would take orders for other files from it" },
};

static const char *
refuses_part(const char *name, size_t len)
{
	char folded[256];

	fold(name, len, folded, sizeof(folded));
	for (size_t i = 0; i < ARRAY_LEN(never); i++) {
		size_t n = strlen(never[i].name);

		if (strncmp(folded, never[i].name, n) == 0 && is_tail(folded + n))
			return never[i].why;
		for (size_t k = 0; k < ARRAY_LEN(never[i].shorts) && never[i].shorts[k] != NULL; k++)
			if (is_short(folded, never[i].shorts[k]))
				return never[i].why;
	}
	return NULL;
}

const char *
state_refuses_name(const char *name, size_t len)
{
	const char *why = NULL;

	if (len == 0 || len > 255 || memchr(name, '/', len) != NULL || memchr(name, '\0', len) != NULL ||
	    (len == 1 && name[0] == '.') || (len == 2 && memcmp(name, "..", 2) == 0))
		return "git cannot have a file of that name";
	/* On Windows, a backslash separates folders. */
	for (size_t at = 0; why == NULL && at <= len;) {
		const char *next = memchr(name + at, '\\', len - at);
		size_t part = next == NULL ? len - at : (size_t)(next - name) - at;

		if (part == 2 && memcmp(name + at, "..", 2) == 0)
			return "other systems would take it for a path out of the state";
		why = part > 0 ? refuses_part(name + at, part) : NULL;
		at += part + 1;
	}
	return why;
}

bool
state_link_leads_out(const char *path, const char *target, size_t len)
{
	size_t depth = 0, at = 0;
	bool climbs = true;

	for (const char *p = strchr(path, '/'); p != NULL; p = strchr(p + 1, '/'))
		depth++;
	if (len == 0 || target[0] == '/')
		return true;
	/* Only at the beginning: behind the name of another link, ".." would be that link's. */
	while (at < len) {
		const char *next = memchr(target + at, '/', len - at);
		size_t part = next == NULL ? len - at : (size_t)(next - target) - at;

		if (part == 2 && memcmp(target + at, "..", 2) == 0) {
			if (!climbs || depth-- == 0)
				return true;
		} else if (part > 0 && !(part == 1 && target[at] == '.')) {
			climbs = false;
		}
		at += part + 1;
	}
	return false;
}
