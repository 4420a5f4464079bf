/* attach.h - joins the terminal of a detached cell's agent. */
#ifndef CLOISTER_CLI_ATTACH_H
#define CLOISTER_CLI_ATTACH_H
#include <stdbool.h>

struct detach;

/* Joins the terminal of the cell WORD until the cell ends, or KEYS are typed; the agent may set the clipboard only
 * with CLIPBOARD.  Returns an exit status: that of the agent, or 0 if the cell goes on.  IS_NEW: this process has
 * started the cell, so it is no error if it has ended since. */
int attach_to(const char *word, const struct detach *keys, bool clipboard, bool is_new);
#endif
