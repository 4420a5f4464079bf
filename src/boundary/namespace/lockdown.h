/* lockdown.h - how a helper process gives up everything it does not need, before it
 * reads its first untrusted byte. */
#ifndef CLOISTER_LOCKDOWN_H
#define CLOISTER_LOCKDOWN_H
#include <stdbool.h>

#include "boundary/namespace/filter.h"

struct err;

struct lockdown {
	enum filter_profile filter;
	bool network;                   /* it dials: the host's network stays */
	const char *const *readable;    /* NULL-terminated paths it may still read; NULL: an
	                                 * empty root instead */
};
/* As any user, and before there is a second thread.  Not dumpable, no new privileges,
 * own user, mount, ipc, uts and (without NETWORK) net namespaces, a root and Landlock
 * with READABLE alone (as it is now: what replaces a file later is not seen), no
 * capabilities, the filter.  Where this machine forbids namespaces or has no Landlock,
 * the others hold.  Descriptors beyond those below KEEP_FDS are closed. */
int lockdown_enter(const struct lockdown *l, int keep_fds, struct err *err);
#endif
