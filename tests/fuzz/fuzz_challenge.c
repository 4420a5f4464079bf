/* fuzz_challenge.c - a registry's WWW-Authenticate, and the realm that it names.
 *
 * A login goes to no host but the registry's own, and hosts of its domain. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "image/challenge.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct challenge_url registry = { .is_tls = true, .host = "r.example.com", .port = 443 };
	static const char domain[] = "example.com";
	struct challenge_url realm;
	struct challenge c;
	bool trusted;
	size_t len;

	if (challenge_parse((const char *)data, size, &c, NULL) < 0)
		return 0;
	assert((c.kind == CHALLENGE_BEARER) == (c.realm[0] != '\0'));
	for (const char *at = c.realm; *at != '\0'; at++)
		assert(*at >= ' ' || *at < 0);
	if (challenge_check_realm(c.realm, &registry, false, NULL, &trusted, NULL) < 0)
		return 0;
	assert(challenge_parse_url(c.realm, &realm) == 0 && realm.is_tls && realm.host[0] != '\0' && realm.port != 0);
	len = strlen(realm.host);
	if (trusted)
		assert(len >= strlen(domain) && strcmp(realm.host + len - strlen(domain), domain) == 0);
	return 0;
}
