/* fuzz_kube_access.c - a kubeconfig: what is taken of it can be asked for, and its token fits a header field. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fleet/kube_access.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(kube_access_free) struct kube_access a = {0};
	OWN(freep) char *line = NULL;

	if (kube_access_read("config", (const char *)data, size, NULL, &a, NULL) < 0)
		return 0;
	assert(strncmp(a.server, "https://", 8) == 0 && strpbrk(a.prefix, " ?#\r\n") == NULL);
	assert((a.cert == NULL) == (a.key == NULL) && (a.cert != NULL || a.token != NULL || a.token_file != NULL));
	if (kube_access_line(&a, &line, NULL) == 0 && line != NULL)
		assert(strpbrk(line, "\r\n") == NULL);
	return 0;
}
