/* mint_keystore.c - writes a Java key store (JKS) of trusted certificates.
 *
 * Big-endian: magic, version, number of entries; for each a tag, an alias, a date, the type and the
 * bytes of the certificate; then a SHA-1 of the password, a phrase and all of that. */
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/mint/mint.h"

#define MAGIC 0xfeedfeedu
#define VERSION 2
#define TRUSTED 2                       /* the tag of a certificate without a key */
#define PASSWORD "changeit"
#define PHRASE "Mighty Aphrodite"
#define KEYSTORE_MAX (8 << 20)
#define COUNT_AT 8                      /* offset of the number of entries */
#define HEAD 12
#define DIGEST 20                       /* at the end */

static void
put_number(struct buf *b, uint64_t value, unsigned bytes)
{
	while (bytes-- > 0) {
		unsigned char byte = (unsigned char)(value >> (8 * bytes));

		buf_put(b, &byte, 1);
	}
}

static void
put_text(struct buf *b, const char *text)
{
	put_number(b, strlen(text), 2);
	buf_put_text(b, text);
}

static void
put_certificate(struct buf *b, uint32_t number, const unsigned char *der, size_t len)
{
	char alias[24];

	snprintf(alias, sizeof(alias), "cloister-%u", number);
	put_number(b, TRUSTED, 4);
	put_text(b, alias);
	put_number(b, (uint64_t)time(NULL) * 1000, 8);
	put_text(b, "X.509");
	put_number(b, len, 4);
	buf_put(b, der, len);
}

static uint32_t
put_all(struct buf *b, BIO *from, uint32_t number)
{
	char *name, *header;
	unsigned char *der;
	long len;

	while (from != NULL && PEM_read_bio(from, &name, &header, &der, &len)) {
		if (strcmp(name, PEM_STRING_X509) == 0)
			put_certificate(b, number++, der, (size_t)len);
		OPENSSL_free(name);
		OPENSSL_free(header);
		OPENSSL_free(der);
	}
	return number;
}

static bool
put_digest(struct buf *b)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE], letter[2] = { 0, 0 };
	unsigned len = 0;
	bool ok = context != NULL && EVP_DigestInit_ex(context, EVP_sha1(), NULL);

	for (const char *c = PASSWORD; ok && *c != '\0'; c++) {
		letter[1] = (unsigned char)*c;
		ok = EVP_DigestUpdate(context, letter, sizeof(letter));
	}
	ok = ok && EVP_DigestUpdate(context, PHRASE, strlen(PHRASE)) &&
	     EVP_DigestUpdate(context, b->data, b->len) && EVP_DigestFinal_ex(context, digest, &len);
	buf_put(b, digest, len);
	EVP_MD_CTX_free(context);
	return ok;
}

static uint32_t
get_number(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Returns the number of existing entries. */
static uint32_t
begin(struct buf *b, const unsigned char *old, size_t len)
{
	if (len > HEAD + DIGEST && get_number(old) == MAGIC && get_number(old + 4) == VERSION) {
		buf_put(b, old, len - DIGEST);
		return get_number(old + COUNT_AT);
	}
	put_number(b, MAGIC, 4);
	put_number(b, VERSION, 4);
	put_number(b, 0, 4);
	return 0;
}

int
mint_write_keystore(const unsigned char *old, size_t len, BIO *const *more, size_t n,
                    BIO *all, int fd, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(KEYSTORE_MAX);
	uint32_t number;

	number = begin(&b, old, len);
	if (number == 0)
		number = put_all(&b, all, number);
	for (size_t i = 0; i < n; i++)
		number = put_all(&b, more[i], number);
	if (!buf_failed(&b))
		for (unsigned i = 0; i < 4; i++)
			b.data[COUNT_AT + i] = (unsigned char)(number >> (8 * (3 - i)));
	if (buf_failed(&b) || !put_digest(&b) || buf_failed(&b))
		return err_set(err, EFBIG, "cannot write the cell's key store");
	return write_all(fd, b.data, b.len, err);
}
