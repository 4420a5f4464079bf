/* notify_sign.c - signatures of Standard Webhooks: https://www.standardwebhooks.com */
#include <errno.h>
#include <inttypes.h>
#include <nettle/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
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
	codec_base64(CODEC_BASE64, digest, sizeof(digest), ret_signature + 3);
	explicit_bzero(&hmac, sizeof(hmac));
}

int
notify_read_secret(const char *text, unsigned char ret_secret[NOTIFY_SECRET_MAX], size_t *ret_n)
{
	unsigned char secret[NOTIFY_SECRET_MAX];
	size_t n;
	int r = -EINVAL;

	if (strncmp(text, "whsec_", 6) == 0 &&
	    codec_unbase64(CODEC_BASE64, text + 6, strlen(text + 6), secret, sizeof(secret), &n) == 0 &&
	    n >= NOTIFY_SECRET_LEAST) {
		memcpy(ret_secret, secret, n);
		*ret_n = n;
		r = 0;
	}
	explicit_bzero(secret, sizeof(secret));
	return r;
}
