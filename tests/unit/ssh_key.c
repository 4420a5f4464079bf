/* ssh_key.c - tests of ssh/ssh_private and ssh/ssh_key: keys made for these tests by ssh-keygen. */
#include "ssh/ssh_key.h"

#include <errno.h>
#include <openssl/pem.h>

#include "base/err.h"
#include "sign/scheme_parts.h"
#include "ssh/ssh_private.h"
#include "test.h"

static const struct { const char *algorithm, *private, *public; } keys[] = {
	{ "ssh-ed25519",
	  "-----BEGIN OPENSSH PRIVATE KEY-----\n"
	  "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"
	  "QyNTUxOQAAACB7m8kKcGlUJIqKyOe1W0dLPEX8K9rKm/lpL4aLauV7WQAAAIhET42oRE+N\n"
	  "qAAAAAtzc2gtZWQyNTUxOQAAACB7m8kKcGlUJIqKyOe1W0dLPEX8K9rKm/lpL4aLauV7WQ\n"
	  "AAAEC/6YFGlGwgg6MrfqhSUiNfomFdGhFGMU3sr8Hxh2udZHubyQpwaVQkiorI57VbR0s8\n"
	  "Rfwr2sqb+Wkvhotq5XtZAAAABHNlZWQB\n"
	  "-----END OPENSSH PRIVATE KEY-----\n",
	  "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHubyQpwaVQkiorI57VbR0s8Rfwr2sqb+Wkvhotq5XtZ" },
	{ "ecdsa-sha2-nistp256",
	  "-----BEGIN OPENSSH PRIVATE KEY-----\n"
	  "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAaAAAABNlY2RzYS\n"
	  "1zaGEyLW5pc3RwMjU2AAAACG5pc3RwMjU2AAAAQQTG+SDQXHzVj3TrZOHm7KZTX3tbQlhd\n"
	  "QJ0tK3EDk8RJBPgqO4gtgFNsodrboNG4sBSu6Ld7gPvutKFyypLqDtQ7AAAAoEkcB95JHA\n"
	  "feAAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMb5INBcfNWPdOtk\n"
	  "4ebsplNfe1tCWF1AnS0rcQOTxEkE+Co7iC2AU2yh2tug0biwFK7ot3uA++60oXLKkuoO1D\n"
	  "sAAAAhAJC9gj4+goxX1JRowd1iphgU3dzBVCuh1qKCCRYZOIOaAAAABHNlZWQBAgM=\n"
	  "-----END OPENSSH PRIVATE KEY-----\n",
	  "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBMb5INBc"
	  "fNWPdOtk4ebsplNfe1tCWF1AnS0rcQOTxEkE+Co7iC2AU2yh2tug0biwFK7ot3uA++60oXLKkuoO1Ds=" },
	{ "rsa-sha2-512",
	  "-----BEGIN OPENSSH PRIVATE KEY-----\n"
	  "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAlwAAAAdzc2gtcn\n"
	  "NhAAAAAwEAAQAAAIEAtWO86TI0kar8kEhV5kOyZYqu6+AiM7DKBtoL9sYMu26EsfVCkM1f\n"
	  "8U3foO3JvbgUGz9EoRoq16r6z1YjuJ1lH9mdxQVGwNJjD4LWrNOZv6fSxourStoYWNj/iu\n"
	  "D0F6v4zmTC85sNw4dHPeGrLm2iup5/2xh9dXJXW3G3Owt04NcAAAIAWn1bIFp9WyAAAAAH\n"
	  "c3NoLXJzYQAAAIEAtWO86TI0kar8kEhV5kOyZYqu6+AiM7DKBtoL9sYMu26EsfVCkM1f8U\n"
	  "3foO3JvbgUGz9EoRoq16r6z1YjuJ1lH9mdxQVGwNJjD4LWrNOZv6fSxourStoYWNj/iuD0\n"
	  "F6v4zmTC85sNw4dHPeGrLm2iup5/2xh9dXJXW3G3Owt04NcAAAADAQABAAAAgHJ3L0aFvT\n"
	  "DTkzBFxZdazyBPBRWqykqOXN84CGbBElXRZ4GZwVj5kXsIZn/6rt2/ZUjQgzGa/sA8kKv4\n"
	  "svAUuzPvND7funt0LXaVNkWsGEBS2FR7qbWvWZeD4HfLxh0pmPoAbxAyM+cVgXp60GXcui\n"
	  "dJOyIf6KRLHvR8OnCPWpqZAAAAQQC27F0zWbfOsymBD33o+NASG2qMQlWSw6XD6JP2AnVe\n"
	  "I6rt6MEWvgOyLziCiPiMcgU6JgsmPPqE+J42vuKPjZ3/AAAAQQDaT/+eGeUthHMN8Hu0Lo\n"
	  "oB29fORSWdy26jpbr+FiTb4ncZcKZ0g+2oS2rDbUbiV10p04qqujJLamx6ml61oHW9AAAA\n"
	  "QQDUs/x1A40LovQQ1rLzGU0D1Pp2uGiQWLuAfcvsUEDlNOp4rnK0IlfNiWo4c3f0xZ+uI3\n"
	  "UJQ2Z8bsVvdyfUcGgjAAAABHNlZWQBAgMEBQY=\n"
	  "-----END OPENSSH PRIVATE KEY-----\n",
	  "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAgQC1Y7zpMjSRqvyQSFXmQ7Jliq7r4CIzsMoG2gv2xgy7"
	  "boSx9UKQzV/xTd+g7cm9uBQbP0ShGirXqvrPViO4nWUf2Z3FBUbA0mMPgtas05m/p9LGi6tK2hhY2P+K"
	  "4PQXq/jOZMLzmw3Dh0c94asubaK6nn/bGH11cldbcbc7C3Tg1w==" },
};

static const char locked[] =
	"-----BEGIN OPENSSH PRIVATE KEY-----\n"
	"b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABCij7hqcO\n"
	"60TlYlqnoxpnNTAAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAIG9MrNGejzNKcFIU\n"
	"ZWBqAperZBGSU+bIgshZXQa++VMGAAAAkHzhjX8W2j+XX4crf3Mt8cIxNHuK9kKG5LsGzM\n"
	"CrXksV6j1JPk6cd+ZmWtA6r0MiU4xHSEzlFFZkGzRKSF+3NGua/zwe/uRabDSfKNsuxXL8\n"
	"Rdw7nh023Hg0MrsM80RW+8Zv2VjOr71p2bwOArXSOKGRBBpUso/Gx87BUCBm+zyEpeg92A\n"
	"2MoP7/yqE8u8IJ3g==\n"
	"-----END OPENSSH PRIVATE KEY-----\n";

static void
read_key(const char *text, struct buf *ret_blob, char pem[4096])
{
	OWN(ssh_pkey_freep) EVP_PKEY *key = NULL;
	BIO *out = BIO_new(BIO_s_mem());
	struct err err = {0};
	int n;

	if (ssh_private_read(scheme_text(text), &key, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_OK(ssh_key_put(ret_blob, key, NULL));
	CHECK(PEM_write_bio_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1);
	n = BIO_read(out, pem, 4095);
	CHECK(n > 0);
	pem[n] = '\0';
	BIO_free(out);
}

TEST(ssh_key_signs_for_its_public_half)
{
	struct http_text message = scheme_text("a message"), other = scheme_text("another");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		OWN(buf_free) struct buf blob, line, signature, again;
		char pem[4096];

		buf_init(&blob, SSH_BLOB_MAX);
		buf_init(&line, 2 * SSH_BLOB_MAX);
		buf_init(&signature, SSH_BLOB_MAX);
		buf_init(&again, SSH_BLOB_MAX);
		read_key(keys[i].private, &blob, pem);
		ssh_key_put_line(&line, scheme_text_of(&blob));
		CHECK(http_text_is(scheme_text_of(&line), keys[i].public));
		CHECK_OK(ssh_key_parse(scheme_text(keys[i].public), &again));
		CHECK(scheme_same(scheme_text_of(&again), scheme_text_of(&blob)));
		CHECK_OK(ssh_sign(scheme_text(pem), keys[i].algorithm, message, &signature, NULL));
		CHECK(ssh_verify(scheme_text_of(&blob), message, scheme_text_of(&signature)));
		CHECK(!ssh_verify(scheme_text_of(&blob), other, scheme_text_of(&signature)));
		for (size_t n = 0; n < signature.len; n++) {
			signature.data[n] ^= 1;
			CHECK(!ssh_verify(scheme_text_of(&blob), message, scheme_text_of(&signature)));
			signature.data[n] ^= 1;
		}
		/* Of another key, or by another algorithm. */
		for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
			OWN(buf_free) struct buf wrong;

			buf_init(&wrong, SSH_BLOB_MAX);
			CHECK_OK(ssh_key_parse(scheme_text(keys[k].public), &wrong));
			CHECK(ssh_verify(scheme_text_of(&wrong), message, scheme_text_of(&signature)) == (k == i));
			if (k != i)
				CHECK(ssh_sign(scheme_text(pem), keys[k].algorithm, message, &again, NULL) < 0);
		}
		CHECK(ssh_sign(scheme_text(pem), "ssh-rsa", message, &again, NULL) < 0);
	}
}

TEST(ssh_key_fingerprint)
{
	/* As published by its owner, and computed by `ssh-keygen -l`. */
	OWN(buf_free) struct buf blob;
	char print[SSH_PRINT_MAX];

	buf_init(&blob, SSH_BLOB_MAX);
	CHECK_OK(ssh_key_parse(scheme_text("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLs"
	                                   "abgH5C9okWi0dh2l9GKJl github.com"), &blob));
	ssh_key_print(scheme_text_of(&blob), print);
	CHECK_STR(print, "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU");
}

static const char *const no_lines[] = {
	"", "ssh-ed25519", "ssh-ed25519 ", "ssh-ed25519 AAAA", "ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzr"
	"m0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKL"
	"sabgH5C9okWi0dh2l9GKJlAAAA", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKL",
	"ssh-dss AAAAB3NzaC1kc3MAAAAA",
};

TEST(ssh_key_lines_that_are_none)
{
	for (size_t i = 0; i < ARRAY_LEN(no_lines); i++) {
		OWN(buf_free) struct buf blob;

		buf_init(&blob, SSH_BLOB_MAX);
		if (ssh_key_parse(scheme_text(no_lines[i]), &blob) == 0)
			test_fail(__FILE__, __LINE__, "%s", no_lines[i]);
	}
}

TEST(ssh_private_locked)
{
	EVP_PKEY *key = NULL;
	struct err err = {0};

	CHECK_ERR(ssh_private_read(scheme_text(locked), &key, &err), EKEYREJECTED);
	CHECK(strstr(err.text, "passphrase") != NULL);
	CHECK_ERR(ssh_private_read(scheme_text(keys[0].public), &key, &err), EINVAL);
	CHECK(key == NULL);
}

/* A byte that is not as it was makes it no key, or changes nothing of it: the comment is free. */
TEST(ssh_private_damaged)
{
	OWN(buf_free) struct buf blob;
	char pem[4096], text[4096];
	size_t taken = 0, len = strlen(keys[0].private);

	buf_init(&blob, SSH_BLOB_MAX);
	read_key(keys[0].private, &blob, pem);
	for (size_t i = 0; i < len; i++) {
		OWN(ssh_pkey_freep) EVP_PKEY *key = NULL;
		OWN(buf_free) struct buf now;

		buf_init(&now, SSH_BLOB_MAX);
		memcpy(text, keys[0].private, len + 1);
		text[i] = text[i] == 'A' ? 'B' : 'A';
		if (ssh_private_read(scheme_text(text), &key, NULL) < 0)
			continue;
		CHECK_OK(ssh_key_put(&now, key, NULL));
		CHECK(scheme_same(scheme_text_of(&now), scheme_text_of(&blob)));
		taken++;
	}
	CHECK(taken < 10);
}
