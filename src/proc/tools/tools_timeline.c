/* tools_timeline.c - reads the timeline of a server's cell, for the keeper: breaches of scopes, and whether the cell
 * is frozen.
 *
 * The cell's own supervisor writes that timeline.  Lines are read as members of records, and nothing is taken from
 * them but a few texts. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/fields.h"
#include "audit/page.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "ipc/courier_channel.h"
#include "proc/tools/tools_proc.h"
#include "tools/scope_hold.h"

/* While the cell runs, its entry is in the first place; then it moves to the second. */
static int
open_timeline(const char *cell)
{
	OWN(closep) int state = cell_state_open(false, NULL);

	for (int place = 0; state >= 0 && place < 2; place++) {
		OWN(closep) int folder = place == 0 ? fcntl(state, F_DUPFD_CLOEXEC, 3) : cell_ended_open(state);
		struct cell_entry entry;

		if (folder >= 0 && cell_find(folder, false, cell, &entry, NULL) == 0)
			return openat(folder, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	}
	return -1;
}

static const char *
text_of(struct http_text line, const char *name, char *text, size_t size)
{
	if (!audit_field_text(line, name, text, size))
		text[0] = '\0';
	return text;
}

/* What was tried: a request, a connection, a name, or a change of a file. */
static void
put_act(struct http_text line, const char *type, char *out, size_t size)
{
	char method[32], scheme[16], host[256], path[512];

	/* A rule of `watch` has it in words. */
	if (text_of(line, "of", out, size)[0] != '\0')
		return;

	text_of(line, "host", host, sizeof(host));
	text_of(line, "path", path, sizeof(path));
	if (text_of(line, "method", method, sizeof(method))[0] != '\0' && host[0] != '\0')
		snprintf(out, size, "%s %s://%s%s", method, text_of(line, "scheme", scheme, sizeof(scheme)), host, path);
	else if (host[0] != '\0')
		snprintf(out, size, "%s %s", type, host);
	else
		snprintf(out, size, "%s%s%s", type, path[0] != '\0' ? " " : "", path);
}

struct reading {
	struct tools_timeline *t;
	const char *server;
	tools_breach_found *found;
	void *arg;
};

/* The reason is ours: it names the tool, "SERVER.NAME". */
static int
take(void *arg, const char *data, size_t len)
{
	const struct reading *r = arg;
	struct json_walk_item event;
	struct http_text line;
	char type[16], reason[TOOLS_WHY_MAX], act[900], why[1500], of[POLICY_TOOLS_NAME_MAX + 1];
	const char *tool;

	if (!audit_field((struct http_text){ data, len }, "event", JSON_WALK_OBJECT, &event))
		return 0;
	line = event.raw;
	if (strncmp(text_of(line, "reason", reason, sizeof(reason)), SCOPE_HOLD_BROKEN, strlen(SCOPE_HOLD_BROKEN)) != 0)
		return 0;
	tool = reason + strlen(SCOPE_HOLD_BROKEN);
	snprintf(of, sizeof(of), "%.*s", (int)strcspn(tool, " "), tool);
	if (strncmp(of, r->server, strlen(r->server)) != 0 || of[strlen(r->server)] != '.')
		snprintf(of, sizeof(of), "%s", r->server);
	put_act(line, text_of(line, "type", type, sizeof(type)), act, sizeof(act));
	snprintf(why, sizeof(why), "%s: %s", reason, act);
	r->found(r->arg, of, why);
	return 0;
}

/* The cell is held to another scope, by tools_hold(). */
static void
take_hold(struct tools_timeline *t, struct http_text line)
{
	char by[32], why[sizeof(t->held)];

	if (strcmp(text_of(line, "by", by, sizeof(by)), TOOLS_HOLD_BY) == 0)
		snprintf(t->held, sizeof(t->held), "%s", text_of(line, "why", why, sizeof(why)));
}

/* A secret that no scope of the running calls has: the reason does not name them. */
static int
take_use(void *arg, const char *data, size_t len)
{
	const struct reading *r = arg;
	const char *held = r->t->held;
	const size_t n = strlen(r->server);
	struct json_walk_item event;
	char type[16], note[TOOLS_WHY_MAX], act[900], why[1700];

	if (!audit_field((struct http_text){ data, len }, "event", JSON_WALK_OBJECT, &event))
		return 0;
	if (strcmp(text_of(event.raw, "type", type, sizeof(type)), "steer") == 0)
		take_hold(r->t, event.raw);
	if (strstr(text_of(event.raw, "note", note, sizeof(note)), COURIER_NOT_USED) == NULL)
		return 0;
	put_act(event.raw, type, act, sizeof(act));
	snprintf(why, sizeof(why), SCOPE_HOLD_BROKEN "%s: %s: %.400s", held[0] != '\0' ? held : SCOPE_HOLD_START, act, note);
	/* Calls that overlap are told apart by nothing. */
	r->found(r->arg, strncmp(held, r->server, n) == 0 && held[n] == '.' && strchr(held, ' ') == NULL ? held : r->server, why);
	return 0;
}

int
tools_timeline_open(struct tools_timeline *t, const char *cell)
{
	if (t->dir < 0)
		t->dir = open_timeline(cell);
	return t->dir;
}

static bool
read_more(struct audit_page page, uint64_t *after, struct reading *r)
{
	const struct tools_timeline *t = r->t;

	page.is_after = true;
	page.after = *after;
	page.limit = TOOLS_RECORDS_MAX;
	page.arg = r;
	if (t->dir < 0 || audit_page_read(&page, t->dir, CELL_EVENTS, NULL) < 0)
		return false;
	if (page.next > *after)
		*after = page.next;
	return page.more;
}

bool
tools_timeline_breaches(struct tools_timeline *t, const char *server, tools_breach_found *found, void *arg)
{
	const struct audit_page breaches = { .search = "annotation broken", .take = take };
	const struct audit_page uses = { .types = "http,tcp,ssh,steer", .take = take_use };
	struct reading r = { t, server, found, arg };
	const bool more = read_more(breaches, &t->breaches, &r);

	return read_more(uses, &t->uses, &r) || more;
}

/* A cell that stands still until a person answers goes on by itself, and names nobody. */
static int
take_freeze(void *arg, const char *data, size_t len)
{
	struct tools_timeline *t = arg;
	struct json_walk_item event;
	char did[16], by[128];

	if (!audit_field((struct http_text){ data, len }, "event", JSON_WALK_OBJECT, &event))
		return 0;
	text_of(event.raw, "did", did, sizeof(did));
	text_of(event.raw, "by", by, sizeof(by));
	if (strcmp(did, "frozen") == 0 && by[0] != '\0')
		snprintf(t->frozen_by, sizeof(t->frozen_by), "%s", by);
	else if (strcmp(did, "thawed") == 0)
		t->frozen_by[0] = '\0';
	return 0;
}

bool
tools_timeline_freezes(struct tools_timeline *t)
{
	struct audit_page page = { .is_after = true, .after = t->freezes, .limit = TOOLS_RECORDS_MAX, .types = "cell",
	                           .take = take_freeze, .arg = t };

	if (t->dir < 0 || audit_page_read(&page, t->dir, CELL_EVENTS, NULL) < 0)
		return false;
	if (page.next > t->freezes)
		t->freezes = page.next;
	return page.more;
}

void
tools_timeline_close(struct tools_timeline *t)
{
	closep(&t->dir);
	t->dir = -1;
}
