/* registry_ref.c - names of registered objects, and references to them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "registry/registry.h"

const char *const registry_kinds[] = { "capability", "agent", "env", "policy", "target", NULL };
const char *const registry_plurals[] = { "capabilities", "agents", "envs", "policies", "targets", NULL };

static bool
is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool
registry_name_ok(const char *name)
{
	size_t n = 0;

	for (; name[n] != '\0' && n <= REGISTRY_NAME_MAX; n++)
		if (!is_letter(name[n]) && (n == 0 || strchr("._-", name[n]) == NULL))
			return false;
	return n > 0 && n <= REGISTRY_NAME_MAX;
}

static int
parse_hash(const char *hash, bool prefix, struct err *err)
{
	const size_t len = strlen(HASH_PREFIX);
	size_t n = strncmp(hash, HASH_PREFIX, len) == 0 ? strspn(hash + len, "0123456789abcdef") : 0;

	if (n == 0 || hash[len + n] != '\0' || n > HASH_HEX)
		return err_set(err, EINVAL, "behind the '@' stands 'sha256:' and the digits of a hash, "
		               "0-9 and a-f");
	if (n < HASH_HEX && !prefix)
		return err_set(err, EINVAL, "the hash is cut short: write all of its %d digits", HASH_HEX);
	if (n < REGISTRY_PREFIX_MIN)
		return err_set(err, EINVAL, "the hash is cut too short: write %d digits of it at least",
		               REGISTRY_PREFIX_MIN);
	return 0;
}

int
registry_ref_parse(const char *text, bool prefix, struct registry_ref *ret_ref, struct err *err)
{
	const char *at = strchrnul(text, '@');
	struct registry_ref ref = {0};
	int r = 0;

	snprintf(ref.name, sizeof(ref.name), "%.*s", (int)(at - text), text);
	if ((size_t)(at - text) > REGISTRY_NAME_MAX || !registry_name_ok(ref.name))
		return err_set(err, EINVAL, "'%.80s' is not the name of anything registered: small letters, "
		               "digits and '._-', at most %d, a letter or digit first", text,
		               REGISTRY_NAME_MAX);
	if (*at == '@')
		r = parse_hash(at + 1, prefix, err);
	if (r < 0)
		return r;
	if (*at == '@')
		snprintf(ref.hash, sizeof(ref.hash), "%s", at + 1);
	*ret_ref = ref;
	return 0;
}
