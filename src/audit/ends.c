/* ends.c - reads the first record of a timeline and its last ones. */
#include <string.h>

#include "audit/ends.h"
#include "audit/page.h"

#define LAST_RECORDS 4                  /* the cell's end is among them: a checkpoint may follow */

static int
take_record(void *arg, const char *line, size_t len)
{
	struct audit_ends *ends = arg;
	json_t *record = json_loadb(line, len, 0, NULL);
	const char *type = json_string_value(json_object_get(json_object_get(record, "event"), "type"));

	if (type != NULL && strcmp(type, "cell.boot") == 0 && ends->boot == NULL)
		ends->boot = json_incref(record);
	if (type != NULL && strcmp(type, "cell.end") == 0 && ends->end == NULL)
		ends->end = json_incref(record);
	json_decref(record);
	return 0;
}

void
audit_ends_read(struct audit_ends *ends, int dir, const char *name)
{
	struct audit_page first = { .is_after = true, .limit = 1, .take = take_record, .arg = ends };
	struct audit_page last = { .limit = LAST_RECORDS, .take = take_record, .arg = ends };

	*ends = (struct audit_ends){0};
	(void)audit_page_read(&first, dir, name, NULL);
	(void)audit_page_read(&last, dir, name, NULL);
}

void
audit_ends_free(struct audit_ends *ends)
{
	json_decref(ends->boot);
	json_decref(ends->end);
}
