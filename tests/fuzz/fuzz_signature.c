/* fuzz_signature.c - what registries have for signatures: payloads, manifests, referrers; and keys, and the
 * store's own file, which is written as it was read. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "image/signature_doc.h"

#define DIGEST "sha256:abababababababababababababababababababababababababababababababab"

static void
check_kept(const char *text, size_t len)
{
	OWN(signatures_free) struct signatures s = {0}, again = {0};
	OWN(freep) char *written = NULL;

	if (signatures_read(text, len, &s, NULL) < 0)
		return;
	assert(signatures_write(&s, &written, NULL) == 0);
	assert(signatures_read(written, strlen(written), &again, NULL) == 0 && again.n == s.n);
	for (size_t i = 0; i < s.n; i++)
		assert(again.list[i].size == s.list[i].size && again.list[i].len == s.list[i].len &&
		       memcmp(again.list[i].payload, s.list[i].payload, s.list[i].size) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(signatures_free) struct signatures s = {0};
	OWN(signature_key_freep) struct signature_key *key = NULL;
	char digests[SIGNATURES_MAX][HASH_NAME + 1];
	const char *text = (const char *)data;

	if (signature_check_payload(text, size, DIGEST, "docker.io/library/debian", "12", NULL) == 0)
		assert(memmem(text, size, "critical", 8) != NULL || memchr(text, '\\', size) != NULL);
	if (signatures_parse(text, size, &s, NULL) == 0)
		assert(s.n <= SIGNATURES_MAX);
	assert(signatures_parse_referrers(text, size, digests, NULL) <= SIGNATURES_MAX);
	check_kept(text, size);
	if (signature_read_key(text, size, &key, NULL) == 0)
		assert(!signature_is_by(key, text, size, text, size < SIGNATURE_MAX ? size : SIGNATURE_MAX));
	return 0;
}
