/* fuzz_login.c - files of logins, answers of credential helpers and of token servers.
 *
 * A token is fit for a header field, and a helper's name for a file's. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "image/auth.h"

static void
check_file(const char *text, size_t len, const char *registry)
{
	OWN(auth_free) struct auth auth = {0};
	struct auth_helper helper = {0};
	int r = auth_find(text, len, registry, "b/c", &auth, &helper, NULL);

	assert(r == 1 || (auth.user == NULL && auth.password == NULL && auth.identity == NULL && auth.bearer == NULL));
	assert((r == 2) == (helper.name[0] != '\0'));
	assert(strchr(helper.name, '/') == NULL);
	if (r == 1)
		assert((auth.user != NULL && auth.password != NULL) || auth.identity != NULL || auth.bearer != NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(auth_free) struct auth answer = {0};
	OWN(freep) char *token = NULL;
	uint64_t seconds;

	check_file((const char *)data, size, "docker.io");
	check_file((const char *)data, size, "a:5000");
	check_file((const char *)data, size, "a.example");
	(void)auth_read_answer((const char *)data, size, &answer, NULL);
	if (auth_read_token((const char *)data, size, &token, &seconds, NULL) == 0) {
		assert(token[0] != '\0' && seconds > 0);
		for (const char *at = token; *at != '\0'; at++)
			assert(*at > ' ' && *at < 0x7f);
	}
	return 0;
}
