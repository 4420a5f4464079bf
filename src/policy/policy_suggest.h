/* policy_suggest.h - writes rules for recorded requests, for `why` and `learn`.
 *
 * The output passes `cloister policy check`. */
#ifndef CLOISTER_POLICY_SUGGEST_H
#define CLOISTER_POLICY_SUGGEST_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

struct err;

#define POLICY_SEEN_MAX (1024 * 1024)   /* requests for one policy */

/* One request, as an event records it.  All strings are borrowed.  Unknown values are NULL, 0 or
 * false. */
struct policy_seen {
	enum policy_protocol protocol;
	const char *method, *path;      /* POLICY_HTTP; the path with or without its query */
	const char *host;               /* canonical name, or address */
	uint16_t port;
	bool plain;                     /* http://, not https:// */
	bool websocket;
	const char *refs;               /* pushed refs, separated by spaces: "+refs/heads/x" forced,
	                                 * ":refs/heads/x" deleted */
	bool push_options;
	const char *tool, *prompt, *resource;   /* a call through the tools' gateway: at most one of them */
	bool private_address;           /* the name resolved to a private address */
	bool secret;                    /* its body looked like a credential */
	uint64_t sent;                  /* bytes of its body */
};

/* Write the narrowest rule that allows SEEN, as an item of `egress:`:
 * "  - allow: api.github.com\n    methods: [GET]\n...".
 * It belongs in front of other rules.  The caller owns *ret_text. */
int policy_write_rule_for(const struct policy_seen *seen, char **ret_text, struct err *err);

/* Write a whole policy, with comments, that allows all N requests SEEN.  Rules are grouped by host,
 * port and methods.  Numbers and hashes in paths, and segments with many siblings, become "*".
 * TITLE goes into the first comment ("written by `cloister learn -- npm install`").  The caller
 * owns *ret_text. */
int policy_write_for(const struct policy_seen *seen, size_t n, const char *title,
                     char **ret_text, struct err *err);
#endif
