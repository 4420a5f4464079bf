/* unpack_path.c - the paths of entries: what they name, if they stay beneath the folder. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "proc/unpack/unpack.h"

#define WHITEOUT ".wh."
#define WHITEOUT_LEN (sizeof(WHITEOUT) - 1)
#define OPAQUE ".wh..wh..opq"
#define META ".wh..wh."

static bool
is_whiteout(const char *name, size_t len)
{
	return len >= WHITEOUT_LEN && memcmp(name, WHITEOUT, WHITEOUT_LEN) == 0;
}

static int
bad(const char *text, const char *why, struct err *err)
{
	return err_set(err, EBADMSG, "its entry '%.200s' %s", text, why);
}

/* Sets kind and name of a path whose text is there. */
static int
name_last(struct unpack_path *p, const char *text, struct err *err)
{
	char *slash = strrchr(p->text, '/');

	p->parent = slash == NULL ? 0 : (size_t)(slash - p->text);
	p->name = slash == NULL ? p->text : slash + 1;
	p->kind = UNPACK_ENTRY;
	if (p->text[0] == '\0')
		p->kind = UNPACK_TOP;
	else if (strcmp(p->name, OPAQUE) == 0)
		p->kind = UNPACK_OPAQUE;
	else if (strncmp(p->name, META, sizeof(META) - 1) == 0)
		p->kind = UNPACK_IGNORED;
	else if (is_whiteout(p->name, strlen(p->name))) {
		p->kind = UNPACK_WHITEOUT;
		p->name += WHITEOUT_LEN;
		if (p->name[0] == '\0' || strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0)
			return bad(text, "removes no file, but a folder above it", err);
	}
	return 0;
}

int
unpack_path_parse(const char *text, struct unpack_path *ret_path, struct err *err)
{
	struct unpack_path *p = ret_path;
	size_t len = 0;
	int depth = 0;

	for (const char *at = text; *at != '\0';) {
		size_t part = strcspn(at, "/");
		bool is_last = at[part + strspn(at + part, "/")] == '\0';

		if (part == 2 && memcmp(at, "..", 2) == 0)
			return bad(text, "would leave the layer's folder", err);
		if (part > NAME_MAX || len + part + 2 > sizeof(p->text))
			return bad(text, "has a name that is too long", err);
		if (!is_last && is_whiteout(at, part))
			return bad(text, "is in a folder with the name of a whiteout", err);
		if (part > 0 && !(part == 1 && at[0] == '.')) {
			if (++depth > UNPACK_DEPTH_MAX)
				return bad(text, "is too deep", err);
			if (len > 0)
				p->text[len++] = '/';
			memcpy(p->text + len, at, part);
			len += part;
		}
		at += part + strspn(at + part, "/");
	}
	p->text[len] = '\0';
	return name_last(p, text, err);
}
