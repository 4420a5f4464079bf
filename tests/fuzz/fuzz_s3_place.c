/* fuzz_s3_place.c - a place for blobs, as operators write it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "store/s3_place.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	struct s3_place p;

	if (text == NULL)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (s3_place_parse(text, NULL, &p, NULL) < 0)
		return 0;
	/* These go into addresses and fields. */
	assert(p.host[0] != '\0' && p.port != 0 && strlen(p.bucket) >= 3);
	assert(strpbrk(p.prefix, " \r\n?#%") == NULL && strpbrk(p.kms_key, " \r\n") == NULL);
	assert(p.prefix[0] == '\0' || p.prefix[strlen(p.prefix) - 1] == '/');
	assert(p.prefix[0] != '/' && strstr(p.prefix, "//") == NULL && strstr(p.prefix, "/../") == NULL && strncmp(p.prefix, "../", 3) != 0);
	assert(p.is_tls || s3_is_loopback(p.host) || strstr(text, "insecure") != NULL);
	return 0;
}
