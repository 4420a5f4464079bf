/* fuzz_proxy.c - what the operator's environment says about proxies: the first byte says
 * whether the rest is a list (NO_PROXY) or a proxy's address. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "upstream/proxy.h"

static const char *const hosts[] = { "a.example", "x.a.example", "10.0.0.1", "[fd00::1]" };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = NULL;
	struct proxy proxy;

	if (size == 0)
		return 0;
	text = malloc(size);
	if (text == NULL)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	if (data[0] % 2 == 0) {
		for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
			(void)proxy_list_has(text, hosts[i], 443);
		return 0;
	}
	proxy_parse(text, &proxy);
	assert(proxy.used);
	assert(proxy.problem != NULL || (proxy.host[0] != '\0' && proxy.port != 0));
	/* It goes into a header. */
	assert(strpbrk(proxy.authorization, "\r\n") == NULL);
	return 0;
}
