/* git_describe.c - describes a push in one line, for the record and for its sender. */
#include <stdio.h>
#include <string.h>

#include "inspect/git.h"
#include "ipc/inspect_channel.h"

/* As in a refspec: "+" moves it by force, ":" deletes it. */
static const char *
mark_of(const struct git_push *p, const struct git_command *c)
{
	if (c->kind == GIT_DELETE)
		return ":";
	/* Before the pack was read, this is unknown. */
	return p->is_over && c->kind == GIT_UPDATE && !c->descends ? "+" : "";
}

void
git_push_describe(const struct git_push *p, char ret_text[INSPECT_PUSHED_MAX])
{
	size_t len = (size_t)snprintf(ret_text, INSPECT_PUSHED_MAX, "-%s%s%s",
	                              p->wants_report ? "r" : "", p->side_band ? "s" : "",
	                              p->has_options ? "o" : "");

	for (size_t i = 0; i < p->n_commands; i++) {
		const struct git_command *c = &p->commands[i];

		/* Leave room for " ...". */
		if (len + strlen(c->ref) + 8 > INSPECT_PUSHED_MAX) {
			memcpy(ret_text + len, " ...", sizeof(" ..."));
			return;
		}
		len += (size_t)snprintf(ret_text + len, INSPECT_PUSHED_MAX - len, " %s%s",
		                        mark_of(p, c), c->ref);
	}
}
