/* upstream_vet.c - see upstream_parts.h: which addresses of a name may be used. */
#include <stdio.h>
#include <string.h>

#include "base/control.h"
#include "cell/cell_net.h"
#include "ipc/courier_channel.h"
#include "upstream/upstream_parts.h"

const char *
upstream_denied_by(const struct pool *pool, const void *rules, const struct address *address,
                   uint16_t port, bool named)
{
	struct address inner[ADDRESS_EMBEDDED_MAX];
	size_t n = address_embedded(address, inner);
	char shown[ADDRESS_TEXT_MAX];
	const char *denied = NULL;

	if (!named)
		denied = pool->owner->denies(rules, address_format(address, shown), port);
	for (size_t i = 0; i < n && denied == NULL; i++)
		denied = pool->owner->denies(rules, address_format(&inner[i], shown), port);
	return denied;
}

size_t
upstream_vet(const struct upstream *up, struct address *addresses, size_t n, char *text, size_t size)
{
	char shown[ADDRESS_TEXT_MAX];
	struct address literal;
	const bool named = address_parse(up->host, &literal);
	const unsigned bits = named ? up->named_bits : 0;
	const char *what, *rule;
	size_t kept = 0;

	text[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		address_format(&addresses[i], shown);
		if (CONTROL_ON("addresses") &&
		    !address_is_allowed(&addresses[i], up->may_use_private, bits, &what)) {
			if (strcmp(up->host, CELL_NET_HOST_NAME) == 0)
				snprintf(text, size, "this machine is reached only where a rule names "
				         CELL_NET_HOST_NAME);
			else
				snprintf(text, size, named ? "the address %s is %s%s"
				                           : "the name leads to %s, which is %s%s", shown, what,
				         address_is_allowed(&addresses[i], true, named ? ADDRESS_BITS : 0, NULL) ? ""
				         : address_is_allowed(&addresses[i], true, ADDRESS_BITS, NULL)
				         ? "; " COURIER_NO_RULE_HELPS " for a name" : "; " COURIER_NO_RULE_HELPS);
			/* A name with both a public and a forbidden address is an attempt to reach
			 * the second. */
			return 0;
		}
		rule = upstream_denied_by(up->pool, up->rules, &addresses[i], up->port, named);
		if (rule != NULL) {
			snprintf(text, size, "the name leads to %s, " COURIER_DENIES_ADDRESS " %s", shown,
			         rule);
			continue;
		}
		addresses[kept++] = addresses[i];
	}
	return kept;
}
