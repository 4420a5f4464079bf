/* cgroup_text.c - parses the kernel's tables of cgroups and their mounts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"

#define CELL_PREFIX "cloister-"

static const struct {
	const char *name;
	unsigned carries;
} controllers[] = {
	{ "memory",  CGROUP_MEMORY  },
	{ "cpu",     CGROUP_CPUS    },
	{ "pids",    CGROUP_PIDS    },
	{ "io",      CGROUP_IO      },
	{ "blkio",   CGROUP_IO      },
	{ "freezer", CGROUP_FREEZER },
	{ "cpuacct", CGROUP_CPUACCT },
};

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void
unescape_octal(char *s)
{
	char *to = s;

	for (; *s != '\0'; s++, to++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		} else {
			*to = *s;
		}
	}
	*to = '\0';
}

static bool
parse_device(const char *s, struct mountinfo_line *l)
{
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	l->major = (unsigned)strtoul(s, &end, 10);
	if (*end != ':' || end[1] < '0' || end[1] > '9')
		return false;
	l->minor = (unsigned)strtoul(end + 1, &end, 10);
	return *end == '\0';
}

/* "36 35 98:0 /root /point rw,noatime tag:1 - type source options".  There may be any number of
 * tags, and the source may be empty. */
static bool
parse_line(char *line, struct mountinfo_line *l)
{
	char *rest = line, *field[6];

	for (size_t i = 0; i < ARRAY_LEN(field); i++) {
		field[i] = strsep(&rest, " ");
		if (rest == NULL)
			return false;
	}
	if (strncmp(rest, "- ", 2) != 0) {
		rest = strstr(rest, " - ");
		if (rest == NULL)
			return false;
		rest++;
	}
	rest += 2;
	l->root = field[3];
	l->point = field[4];
	l->type = strsep(&rest, " ");
	l->source = strsep(&rest, " ");
	l->options = rest;
	if (l->options == NULL || !parse_device(field[2], l))
		return false;
	unescape_octal(l->root);
	unescape_octal(l->point);
	unescape_octal(l->source);
	return true;
}

bool
mountinfo_next(char **cursor, struct mountinfo_line *ret_line)
{
	char *line;

	while (*cursor != NULL && **cursor != '\0') {
		line = strsep(cursor, "\n");
		if (parse_line(line, ret_line))
			return true;
	}
	return false;
}

static unsigned
parse_carried(const char *list, unsigned mask)
{
	unsigned found = 0;
	size_t len;

	for (; *list != '\0'; list += len) {
		list += strspn(list, " ,\n");
		len = strcspn(list, " ,\n");
		for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
			if (len > 0 && strlen(controllers[i].name) == len &&
			    memcmp(list, controllers[i].name, len) == 0)
				found |= controllers[i].carries;
	}
	return found & mask;
}

unsigned
cgroup_parse_controllers(const char *list)
{
	return parse_carried(list, CGROUP_ALL);
}

void
cgroup_note_mount(struct cgroup_hierarchies *hs, const struct mountinfo_line *line)
{
	struct cgroup_hierarchy h = { .root = line->root, .point = line->point };

	if (strcmp(line->type, "cgroup2") == 0) {
		h.version = 2;
	} else if (strcmp(line->type, "cgroup") == 0) {
		h.version = 1;
		h.carries = parse_carried(line->options, ~0u);
		if (h.carries == 0)
			return;
	} else {
		return;
	}
	for (size_t i = 0; i < hs->n; i++) {
		if (hs->list[i].version != h.version || hs->list[i].carries != h.carries)
			continue;
		/* A bind mount of one group does not show the others. */
		if (strlen(h.root) < strlen(hs->list[i].root))
			hs->list[i] = h;
		return;
	}
	if (hs->n < CGROUP_HIERARCHIES_MAX)
		hs->list[hs->n++] = h;
}

/* Lines of "4:cpu,cpuacct:/path"; v2's is "0::/path". */
void
cgroup_note_own(struct cgroup_hierarchies *hs, char *text)
{
	char *line, *list, *path;
	unsigned carries;
	int version;

	while ((line = strsep(&text, "\n")) != NULL) {
		strsep(&line, ":");
		list = strsep(&line, ":");
		path = line;
		if (path == NULL || *path != '/')
			continue;
		version = *list == '\0' ? 2 : 1;
		carries = parse_carried(list, ~0u);
		for (size_t i = 0; i < hs->n; i++)
			if (hs->list[i].version == version && hs->list[i].carries == carries)
				hs->list[i].own = path;
	}
}

bool
cgroup_own_dir(const struct cgroup_hierarchy *h, char dir[PATH_MAX])
{
	const char *own = h->own;
	size_t len = strlen(h->root);
	int n;

	if (own == NULL)
		return false;
	if (strcmp(h->root, "/") == 0)
		len = 0;
	if (strncmp(own, h->root, len) != 0 || (own[len] != '/' && own[len] != '\0'))
		return false;
	own += len;
	/* The kernel writes this for a group outside this cgroup namespace. */
	if (strncmp(own, "/..", 3) == 0 && (own[3] == '/' || own[3] == '\0'))
		return false;
	if (strcmp(own, "/") == 0)
		own = "";
	n = snprintf(dir, PATH_MAX, "%s%s", h->point, own);
	return n > 0 && n < PATH_MAX;
}

uint64_t
cgroup_parse_key(const char *text, const char *key)
{
	size_t len = strlen(key);

	while (text != NULL && *text != '\0') {
		if (strncmp(text, key, len) == 0 && text[len] == ' ')
			return strtoull(text + len, NULL, 10);
		text = strchr(text, '\n');
		if (text != NULL)
			text++;
	}
	return 0;
}

/* The number behind WORD in the line; 0 if it is not there. */
static uint64_t
number_in_line(const char *line, const char *word)
{
	const char *end = strchrnul(line, '\n');
	const char *at = memmem(line, (size_t)(end - line), word, strlen(word));

	return at == NULL ? 0 : strtoull(at + strlen(word), NULL, 10);
}

void
cgroup_parse_io(const char *text, uint64_t *ret_read, uint64_t *ret_written)
{
	*ret_read = *ret_written = 0;
	while (*text != '\0') {
		*ret_read += number_in_line(text, " rbytes=") + number_in_line(text, " Read ");
		*ret_written += number_in_line(text, " wbytes=") + number_in_line(text, " Write ");
		text = strchrnul(text, '\n');
		text += *text == '\n';
	}
}

uint64_t
cgroup_parse_pressure(const char *text)
{
	const char *end = strchrnul(text, '\n');
	const char *at = memmem(text, (size_t)(end - text), " avg10=", 7);
	char *point;
	uint64_t whole;

	if (at == NULL)
		return 0;
	whole = strtoull(at + 7, &point, 10);
	if (whole > 100 || point[0] != '.' || point[1] < '0' || point[1] > '9' || point[2] < '0' || point[2] > '9')
		return 0;
	return whole * 100 + (uint64_t)(point[1] - '0') * 10 + (uint64_t)(point[2] - '0');
}

const char *
cgroup_cell_name(char name[CGROUP_NAME_MAX], const char *id)
{
	snprintf(name, CGROUP_NAME_MAX, CELL_PREFIX "%s", id);
	return name;
}

bool
cgroup_is_cell_name(const char *name)
{
	const char *id = name + strlen(CELL_PREFIX);
	size_t len;

	if (strncmp(name, CELL_PREFIX, strlen(CELL_PREFIX)) != 0)
		return false;
	len = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
	return len > 0 && len <= CGROUP_ID_MAX && id[len] == '\0';
}

void
cgroup_name_limits(unsigned limits, char *text, size_t size)
{
	static const char *const names[] = { "memory", "cpus", "pids", "io" };
	size_t used = 0;

	*text = '\0';
	for (size_t i = 0; i < ARRAY_LEN(names) && used < size; i++) {
		if ((limits & 1u << i) == 0)
			continue;
		limits &= ~(1u << i);
		used += (size_t)snprintf(text + used, size - used, "%s%s",
		                         used == 0 ? "" : limits == 0 ? " and " : ", ", names[i]);
	}
}
