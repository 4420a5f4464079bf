/* fuzz_volumes.c - `volumes` and `cache` of a policy: what is read has valid names and paths. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "policy/policy_state.h"
#include "policy/policy_volume.h"
#include "policy/policy_yaml.h"

static void
check(const struct policy_volume *volume)
{
	assert(policy_volume_name_ok(volume->name) && (volume->label[0] == '\0' || policy_volume_name_ok(volume->label)));
	assert(volume->path[0] == '/' && policy_state_path_ok(volume->path) && !(volume->writes && volume->label[0] != '\0'));
}

static void
check_cache(const struct policy_volume *cache)
{
	assert(policy_volume_name_ok(cache->name) && strlen(cache->name) <= POLICY_CACHE_NAME_MAX && !cache->writes);
	assert(strspn(cache->label, "0123456789abcdef") == strlen(cache->label));
	assert(cache->path[0] == '\0' || (cache->path[0] == '/' && policy_state_path_ok(cache->path)));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *text = strndup((const char *)data, size);
	struct policy_volumes volumes;
	struct policy_volume volume;

	if (text != NULL && policy_volume_parse(text, &volume, NULL) == 0)
		check(&volume);
	if (text != NULL && policy_cache_parse(text, &volume, NULL) == 0)
		check_cache(&volume);
	if (node_parse("f", (const char *)data, size, &root, NULL) < 0)
		return 0;
	if (policy_caches_read(root, &volumes, NULL) == 0)
		for (size_t i = 0; i < volumes.n; i++)
			check_cache(&volumes.at[i]);
	if (policy_volumes_read(root, &volumes, NULL) < 0)
		return 0;
	assert(volumes.n > 0 && volumes.n <= POLICY_VOLUMES_MAX);
	for (size_t i = 0; i < volumes.n; i++)
		check(&volumes.at[i]);
	return 0;
}
