/* main.c - cloister-mint: makes the certificate authority of one cell, and exits.
 *
 * cloister-mint ID SECONDS [java], started by the supervisor with
 *   fd 3  a memory file for the certificate, PEM
 *   fd 4  a memory file for its key, PEM
 *   fd 5  a pipe: "HASH\n" when both are written; HASH is OpenSSL's lookup hash of the
 *         certificate; nothing if it failed
 *   fd 6  with "java": a memory file for a key store of everything that is trusted
 *   fd 7  certificates of the operator's own, PEM, if there are any
 * It reads nothing that an agent wrote. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "cell/cell_spec.h"
#include "cell/cell_trust.h"
#include "proc/mint/mint.h"
#include "tls/extension.h"

enum { CERTIFICATE = 3, KEY = 4, RESULT = 5, KEYSTORE = 6, AUTHORITIES = 7 };

#define DAY (24 * 3600)
#define SECONDS_MAX (10 * 365 * DAY)
#define KEYSTORE_MAX (4 << 20)           /* the system's own */

OWN_BY(pkey_freep, EVP_PKEY *, EVP_PKEY_free)
OWN_BY(x509_freep, X509 *, X509_free)

static int
set_serial(X509 *x)
{
	unsigned char random[16];
	BIGNUM *number;
	int ok;

	if (RAND_bytes(random, sizeof(random)) != 1)
		return 0;
	random[0] &= 0x7f;
	number = BN_bin2bn(random, sizeof(random), NULL);
	ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) != NULL;
	BN_free(number);
	return ok;
}

/* Backdated by a day, for clocks that differ. */
static X509 *
make_certificate(const char *id, long seconds, EVP_PKEY *key)
{
	OWN(x509_freep) X509 *x = X509_new();
	X509_NAME *name = x == NULL ? NULL : X509_get_subject_name(x);
	char text[64];

	snprintf(text, sizeof(text), "cloister cell %s", id);
	if (name == NULL || !X509_set_version(x, X509_VERSION_3) || !set_serial(x) ||
	    !X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (unsigned char *)text, -1, -1, 0) ||
	    !X509_set_issuer_name(x, name) || !X509_set_pubkey(x, key) ||
	    X509_gmtime_adj(X509_getm_notBefore(x), -DAY) == NULL ||
	    X509_gmtime_adj(X509_getm_notAfter(x), seconds + DAY) == NULL ||
	    !tls_add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
	    !tls_add_extension(x, x, NID_key_usage, "critical,keyCertSign") ||
	    !tls_add_extension(x, x, NID_subject_key_identifier, "hash") ||
	    X509_sign(x, key, EVP_sha256()) == 0)
		return NULL;
	return TAKE(x);
}

static int
write_pem(int fd, const X509 *x, const EVP_PKEY *key, struct err *err)
{
	BIO *bio = BIO_new(BIO_s_mem());
	char *text;
	long len;
	int ok, r;

	ok = bio != NULL && (x != NULL ? PEM_write_bio_X509(bio, x)
	                               : PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL));
	len = ok ? BIO_get_mem_data(bio, &text) : 0;
	r = len > 0 ? write_all(fd, text, (size_t)len, err)
	            : err_set(err, ENOMEM, "cannot write the cell's certificate");
	BIO_free(bio);
	return r;
}

/* Reads all of a file; a memory file is shared, so its offset cannot be relied on. */
static BIO *
open_file(int fd)
{
	BIO *bio = fd < 0 ? NULL : BIO_new(BIO_s_mem());
	char bytes[65536];
	off_t at = 0;
	ssize_t n;

	while (bio != NULL && (n = pread(fd, bytes, sizeof(bytes), at)) > 0 &&
	       BIO_write(bio, bytes, (int)n) == n)
		at += n;
	return bio;
}

static int
write_keystore(const X509 *own, bool has_authorities, struct err *err)
{
	OWN(freep) char *old = NULL;
	OWN(closep) int bundle = cell_trust_open();
	BIO *more[] = { BIO_new(BIO_s_mem()), has_authorities ? open_file(AUTHORITIES) : NULL };
	BIO *all = open_file(bundle);
	size_t len = 0;
	char path[96];
	int r;

	for (size_t i = 0; old == NULL && cell_trust_java[i] != NULL; i++) {
		snprintf(path, sizeof(path), "/etc/%s", cell_trust_java[i]);
		(void)read_file_at(AT_FDCWD, path, KEYSTORE_MAX, &old, &len, NULL);
	}
	r = more[0] == NULL || !PEM_write_bio_X509(more[0], own)
	    ? err_set(err, ENOMEM, "cannot write the cell's key store")
	    : mint_write_keystore((unsigned char *)old, len, more, ARRAY_LEN(more), all, KEYSTORE, err);
	BIO_free(all);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		BIO_free(more[i]);
	return r;
}

static int
mint(const char *id, const char *seconds, bool java, struct err *err)
{
	OWN(pkey_freep) EVP_PKEY *key = NULL;
	OWN(x509_freep) X509 *x = NULL;
	/* Checked before another file takes that descriptor. */
	bool has_authorities = fcntl(AUTHORITIES, F_GETFD) >= 0;
	char line[16];
	uint64_t n;
	int r;

	r = num_parse_count(seconds, 1, UINT64_MAX, &n, err);
	if (r < 0)
		return r;
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot give up privileges");
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
	key = EVP_EC_gen("P-256");
	x = key == NULL ? NULL : make_certificate(id, n > SECONDS_MAX ? SECONDS_MAX : (long)n, key);
	if (x == NULL)
		return err_set(err, EIO, "cannot make the cell's certificate");
	r = write_pem(CERTIFICATE, x, NULL, err);
	if (r == 0)
		r = write_pem(KEY, NULL, key, err);
	if (r == 0 && java)
		r = write_keystore(x, has_authorities, err);
	snprintf(line, sizeof(line), "%08lx\n", X509_subject_name_hash(x));
	return r < 0 ? r : write_all(RESULT, line, strlen(line), err);
}

int
main(int argc, char **argv)
{
	struct err err = {0};

	if (argc < 3 || fcntl(RESULT, F_GETFD) < 0 || !cell_name_ok(argv[1])) {
		fprintf(stderr, "cloister-mint is started by cloister-supervisor only\n");
		return 125;
	}
	if (mint(argv[1], argv[2], argc > 3, &err) == 0)
		/* The kernel frees memory sooner than this process could. */
		_exit(0);
	fprintf(stderr, "cloister: %s\n", err.text);
	return 125;
}
