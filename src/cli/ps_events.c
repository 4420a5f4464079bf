/* ps_events.c - describes an ended cell of which only the timeline is left. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "audit/ends.h"
#include "base/own.h"
#include "base/since.h"
#include "cell/cell_dirs.h"
#include "cli/ps.h"

static uint64_t
time_of(const json_t *record)
{
	const char *text = json_string_value(json_object_get(record, "time"));
	uint64_t ms = 0;

	return text != NULL && since_parse(text, 0, &ms, NULL) == 0 ? ms * 1000000 : 0;
}

static char *
copy_text(const json_t *value)
{
	const char *text = json_string_value(value);

	return strdup(text != NULL ? text : "");
}

static int
fill_spec(struct cell_spec *spec, const struct cell_entry *entry, const json_t *grant)
{
	const json_t *argv = json_object_get(grant, "argv");
	const char *boundary = json_string_value(json_object_get(grant, "boundary"));
	const size_t n = json_array_size(argv);

	memcpy(spec->id, entry->id, sizeof(spec->id));
	spec->name = strdup(entry->name);
	snprintf(spec->boundary, sizeof(spec->boundary), "%s", boundary != NULL ? boundary : "");
	spec->principal = copy_text(json_object_get(grant, "principal"));
	spec->chain = copy_text(json_object_get(grant, "chain"));
	spec->argv = calloc(n + 1, sizeof(*spec->argv));
	if (spec->name == NULL || spec->principal == NULL || spec->chain == NULL ||
	    spec->argv == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if ((spec->argv[i] = copy_text(json_array_get(argv, i))) == NULL)
			return -ENOMEM;
	return 0;
}

int
ps_read_events(int dir, const struct cell_entry *entry, struct cell_record *ret_record)
{
	OWN(cell_record_free) struct cell_record record = { .is_bare = true };
	OWN(audit_ends_free) struct audit_ends ends = {0};
	struct stat st;
	int r = fstatat(dir, CELL_EVENTS, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;

	if (r == 0) {
		audit_ends_read(&ends, dir, CELL_EVENTS);
		r = fill_spec(&record.spec, entry, json_object_get(json_object_get(ends.boot, "event"), "grant"));
		record.started_ns = time_of(ends.boot);
		record.ended_ns = ends.end != NULL ? time_of(ends.end) : (uint64_t)st.st_mtim.tv_sec * 1000000000;
		/* A cell without an end died with its supervisor. */
		record.status = ends.end == NULL ? 128 + SIGKILL :
		                (uint32_t)json_integer_value(json_object_get(json_object_get(ends.end, "event"), "status"));
	}
	if (r < 0)
		return r;
	*ret_record = record;
	record = (struct cell_record){0};
	return 0;
}
