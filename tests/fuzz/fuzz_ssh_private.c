/* fuzz_ssh_private.c - private keys: OpenSSH's format, with its base64 (as text that begins
 * with a dash) or without it.
 *
 * What is taken for a key and can be used has a public half that is one. */
#include <assert.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "ssh/ssh_key.h"
#include "ssh/ssh_private.h"

static char *
wrap(const uint8_t *data, size_t size, size_t *ret_len)
{
	BIO *out = BIO_new(BIO_s_mem());
	char *at, *text;
	long len;

	assert(PEM_write_bio(out, "OPENSSH PRIVATE KEY", "", data, (long)size) > 0);
	len = BIO_get_mem_data(out, &at);
	text = malloc((size_t)len);
	assert(text != NULL);
	memcpy(text, at, (size_t)len);
	*ret_len = (size_t)len;
	BIO_free(out);
	return text;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(ssh_pkey_freep) EVP_PKEY *key = NULL;
	OWN(freep) char *text = NULL;
	OWN(buf_free) struct buf blob;
	struct http_text given = { (const char *)data, size };

	buf_init(&blob, SSH_BLOB_MAX);
	if (size == 0 || size > SSH_PRIVATE_MAX / 2)
		return 0;
	if (data[0] != '-')
		given.at = text = wrap(data, size, &given.len);
	if (ssh_private_read(given, &key, NULL) < 0)
		return 0;
	if (ssh_key_put(&blob, key, NULL) == 0)
		assert(ssh_key_ok((struct http_text){ (char *)blob.data, blob.len }));
	return 0;
}
