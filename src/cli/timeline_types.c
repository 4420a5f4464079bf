/* timeline_types.c - the types of events that an operator chooses with --type. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/timeline_acts.h"

const char *const timeline_type_names[] = {
	"approval", "budget", "calls", "cell", "danger", "dns", "exec", "exit", "file", "http", "intent", "lost", "many",
	"net", "record", "refused", "resources", "secret", "ssh", "steer", "tcp", "tls", "tool", "usage", "watch", "webhook", NULL
};
_Static_assert(ARRAY_LEN(timeline_type_names) - 1 <= TIMELINE_TYPES_MAX, "each has a bit");

/* "cell" has everything about the cell's own life. */
static const char *
name_of(const char *type)
{
	return strncmp(type, "cell.", 5) == 0 || strcmp(type, "setup.ran") == 0 ? "cell" : type;
}

static int
find(const char *name)
{
	for (int i = 0; timeline_type_names[i] != NULL; i++)
		if (strcmp(timeline_type_names[i], name) == 0)
			return i;
	return -1;
}

int
timeline_types_parse(const char *list, struct timeline_types *ret_types, struct err *err)
{
	char word[32];
	size_t len;

	for (; ; list += len + 1) {
		int at;

		len = strcspn(list, ",");
		snprintf(word, sizeof(word), "%.*s", (int)(len < sizeof(word) ? len : sizeof(word) - 1), list);
		at = find(name_of(word));
		if (at < 0 || len >= sizeof(word)) {
			const char *nearest = text_nearest(word, timeline_type_names);

			return err_set(err, EINVAL, "there is no type '%s' of events: %s%s%s", word,
			               nearest != NULL ? "did you mean '" : "see JSON MEMBERS in cloister-events(1)",
			               nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
		}
		ret_types->bits |= 1u << at;
		if (list[len] == '\0')
			return 0;
	}
}

bool
timeline_types_have(const struct timeline_types *types, const char *type)
{
	int at = find(name_of(type));

	return types->bits == 0 || (at >= 0 && (types->bits & 1u << at) != 0);
}
