/* lockdown.h - makes a helper process give up everything it does not need, before it reads its
 * first untrusted byte. */
#ifndef CLOISTER_LOCKDOWN_H
#define CLOISTER_LOCKDOWN_H
#include <stdbool.h>
#include <stdint.h>

#include "confine/filter.h"

struct err;

struct lockdown {
	enum filter_profile filter;
	bool network;                   /* it dials: keep the host's network */
	const char *const *readable;    /* NULL-terminated paths it may still read; NULL: an
	                                 * empty root */
	const char *const *writable;    /* likewise, folders that it may change, through descriptors that
	                                 * it has open; NULL: none */
	bool links;                     /* it makes symbolic links there, too */
	bool looks;                     /* it looks at processes of others: no Landlock, which forbids that, and
	                                 * no namespaces but beside these: */
	int user_namespace;             /* above 0: join this, as its root, with the rights KEPT over its
	                                 * processes (a bit for each of the first 32 capabilities) */
	uint32_t kept;
};
/* Call this as any user, before there is a second thread.  The process becomes not dumpable and
 * cannot gain privileges.  It gets its own user, mount, ipc, uts and (without NETWORK) net
 * namespaces; a root and Landlock with READABLE alone; no capabilities; and the filter.  A file
 * that is replaced later is not seen.  If this machine forbids namespaces or their use, or has no
 * Landlock, the other restrictions hold.  Descriptors from KEEP_FDS on are closed. */
int lockdown_enter(const struct lockdown *l, int keep_fds, struct err *err);
#endif
