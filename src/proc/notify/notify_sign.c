/* notify_sign.c - signatures of Standard Webhooks: https://www.standardwebhooks.com */
#include <errno.h>
#include <inttypes.h>
#include <nettle/base64.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>

#include "proc/notify/notify.h"

void
notify_sign(const unsigned char *secret, size_t n_secret, const char *id, uint64_t timestamp,
            const char *body, size_t len, char ret_signature[NOTIFY_SIGNATURE_MAX])
{
	unsigned char digest[SHA256_DIGEST_SIZE];
	struct hmac_sha256_ctx hmac;
	char before[NOTIFY_ID_MAX + 32];
	int n = snprintf(before, sizeof(before), "%s.%" PRIu64 ".", id, timestamp);

	hmac_sha256_set_key(&hmac, n_secret, secret);
	hmac_sha256_update(&hmac, (size_t)n, (const uint8_t *)before);
	hmac_sha256_update(&hmac, len, (const uint8_t *)body);
	hmac_sha256_digest(&hmac, sizeof(digest), digest);
	memcpy(ret_signature, "v1,", 3);
	base64_encode_raw(ret_signature + 3, sizeof(digest), digest);
	ret_signature[3 + BASE64_ENCODE_RAW_LENGTH(sizeof(digest))] = '\0';
	explicit_bzero(&hmac, sizeof(hmac));
}

int
notify_read_secret(const char *text, unsigned char ret_secret[NOTIFY_SECRET_MAX], size_t *ret_n)
{
	unsigned char secret[BASE64_DECODE_LENGTH(128)];
	size_t n = sizeof(secret), len = strlen(text);
	struct base64_decode_ctx ctx;
	int r = 0;

	if (strncmp(text, "whsec_", 6) != 0 || len > 6 + 128)
		return -EINVAL;
	base64_decode_init(&ctx);
	if (base64_decode_update(&ctx, &n, secret, len - 6, text + 6) != 1 ||
	    base64_decode_final(&ctx) != 1 || n < NOTIFY_SECRET_LEAST || n > NOTIFY_SECRET_MAX)
		r = -EINVAL;
	if (r == 0) {
		memcpy(ret_secret, secret, n);
		*ret_n = n;
	}
	explicit_bzero(secret, sizeof(secret));
	return r;
}
