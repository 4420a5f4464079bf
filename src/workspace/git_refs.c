/* git_refs.c - see git_refs.h, and gitrepository-layout(5). */
#include "workspace/git_refs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

/* ---- names and ids -------------------------------------------------------------- */

static bool
is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The length of the id at the start of TEXT: 40 (SHA-1), 64 (SHA-256), or 0 if there is none. */
static size_t
id_len(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && n <= 64 && is_hex(text[n]))
		n++;
	return n == 40 || n == 64 ? n : 0;
}

static bool
is_part(const char *part, size_t len)
{
	if (len == 0 || part[0] == '.' || part[len - 1] == '.' ||
	    (len >= 5 && memcmp(part + len - 5, ".lock", 5) == 0))
		return false;
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)part[i];

		if (c <= ' ' || c == 0x7f || strchr("~^:?*[\\", c) != NULL ||
		    (i > 0 && part[i - 1] == '.' && c == '.') || (i > 0 && part[i - 1] == '@' && c == '{'))
			return false;
	}
	return true;
}

bool
git_ref_is_name(const char *name)
{
	size_t len;

	if (strcmp(name, "HEAD") == 0)
		return true;
	if (strncmp(name, "refs/", 5) != 0 || strlen(name) >= GIT_REF_MAX)
		return false;
	for (name += 5;; name += len + 1) {
		len = strcspn(name, "/");
		if (!is_part(name, len))
			return false;
		if (name[len] == '\0')
			return true;
	}
}

bool
git_ref_parse(const char *text, size_t len, char ret_value[GIT_REF_MAX])
{
	static const char start[] = "ref: ";
	char value[GIT_REF_MAX];
	bool is_name = len >= sizeof(start) && memcmp(text, start, sizeof(start) - 1) == 0;

	if (len == 0 || text[len - 1] != '\n' || memchr(text, '\0', len) != NULL)
		return false;
	text += is_name ? sizeof(start) - 1 : 0;
	len -= is_name ? sizeof(start) : 1;
	if (len >= sizeof(value) || (!is_name && (len == 0 || id_len(text, len) != len)))
		return false;
	memcpy(value, text, len);
	value[len] = '\0';
	if (is_name && !git_ref_is_name(value))
		return false;
	memcpy(ret_value, value, len + 1);
	return true;
}

/* ---- packed-refs ---------------------------------------------------------------- */

#define LINE_MIN (40 + sizeof(" HEAD"))         /* the shortest line with a ref */

static int
order_refs(const void *a, const void *b)
{
	return strcmp(((const struct git_packed_ref *)a)->name, ((const struct git_packed_ref *)b)->name);
}

/* Parse LINE, LEN bytes and a NUL: "ID NAME". */
static bool
take_ref(char *line, size_t len, struct git_packed_ref *ret_ref)
{
	size_t digits = id_len(line, len);

	if (digits == 0 || line[digits] != ' ' || !git_ref_is_name(line + digits + 1))
		return false;
	line[digits] = '\0';
	*ret_ref = (struct git_packed_ref){ .name = line + digits + 1, .id = line };
	return true;
}

/* "^ID": the object of the tag on the line before. */
static bool
is_peeled(const char *line, size_t len)
{
	return line[0] == '^' && len > 1 && id_len(line + 1, len - 1) == len - 1;
}

static bool
take_lines(struct git_packed *packed, size_t len)
{
	char *line = packed->text, *end = packed->text + len, *next;

	if (memchr(line, '\0', len) != NULL)
		return false;
	for (bool first = true; line < end; line = next, first = false) {
		next = memchr(line, '\n', (size_t)(end - line));
		if (next == NULL)
			return false;
		*next++ = '\0';
		if ((first && line[0] == '#') || (packed->n > 0 && is_peeled(line, strlen(line))))
			continue;
		if (!take_ref(line, strlen(line), &packed->refs[packed->n]))
			return false;
		packed->n++;
	}
	return true;
}

int
git_packed_parse(char *text, size_t len, struct git_packed *ret_packed, struct err *err)
{
	OWN(git_packed_free) struct git_packed packed = { .text = text };

	packed.refs = calloc(len / LINE_MIN + 1, sizeof(*packed.refs));
	if (packed.refs == NULL)
		return err_errno(err, "cannot read packed refs");
	if (!take_lines(&packed, len))
		return err_set(err, EINVAL, "packed refs are not as git writes them");
	if (packed.n > 0)
		qsort(packed.refs, packed.n, sizeof(*packed.refs), order_refs);
	*ret_packed = packed;
	packed = (struct git_packed){0};
	return 0;
}

void
git_packed_free(struct git_packed *packed)
{
	free(packed->refs);
	free(packed->text);
	*packed = (struct git_packed){0};
}

const char *
git_packed_find(const struct git_packed *packed, const char *name)
{
	const struct git_packed_ref key = { .name = name }, *found;

	if (packed->n == 0)
		return NULL;
	found = bsearch(&key, packed->refs, packed->n, sizeof(*packed->refs), order_refs);
	return found == NULL ? NULL : found->id;
}

/* ---- logs ----------------------------------------------------------------------- */

/* Whether the ID of DIGITS bytes is WANT; NULL stands for zeros. */
static bool
is_id(const char *id, size_t digits, const char *want)
{
	if (want == NULL)
		return strspn(id, "0") >= digits;
	return strlen(want) == digits && memcmp(id, want, digits) == 0;
}

size_t
git_log_steps(const char *text, size_t len, const char *old, const char *new)
{
	const char *end = text + len, *line = text, *last = NULL, *stop;
	size_t steps = 0, digits = 0;

	for (; line < end; line = stop + 1) {
		stop = memchr(line, '\n', (size_t)(end - line));
		digits = stop == NULL ? 0 : id_len(line, (size_t)(stop - line));
		/* "OLD NEW WHO WHEN\tWHY" */
		if (digits == 0 || (size_t)(stop - line) < 2 * digits + 2 || line[digits] != ' ' ||
		    id_len(line + digits + 1, digits + 1) != digits || line[2 * digits + 1] != ' ')
			return 0;
		if (is_id(line, digits, old))
			steps = 1;
		else if (steps > 0 && memcmp(line, last, digits + 1) == 0)
			steps++;
		else
			steps = 0;
		last = line + digits + 1;
	}
	return last != NULL && is_id(last, digits, new) ? steps : 0;
}
