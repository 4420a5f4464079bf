/* key.c - see key.h. */
#include "audit/key.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/base64.h>
#include <nettle/eddsa.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

_Static_assert(AUDIT_KEY == ED25519_KEY_SIZE && AUDIT_SIGNATURE == ED25519_SIGNATURE_SIZE &&
               AUDIT_SIGNATURE_TEXT == BASE64_ENCODE_RAW_LENGTH(AUDIT_SIGNATURE), "Ed25519");

void
audit_key_from_seed(const unsigned char seed[AUDIT_KEY], struct audit_key *ret_key)
{
	memmove(ret_key->seed, seed, AUDIT_KEY);
	ed25519_sha512_public_key(ret_key->public, ret_key->seed);
}

int
audit_key_make(struct audit_key *ret_key, struct err *err)
{
	unsigned char seed[AUDIT_KEY];
	ssize_t n;

	do
		n = getrandom(seed, sizeof(seed), 0);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(seed))
		return err_errno(err, "cannot make a key");
	audit_key_from_seed(seed, ret_key);
	explicit_bzero(seed, sizeof(seed));
	return 0;
}

void
audit_key_wipe(struct audit_key *key)
{
	explicit_bzero(key, sizeof(*key));
}

static int
make_file(int dir, const char *name, struct err *err)
{
	OWN(audit_key_wipe) struct audit_key key = {0};
	OWN(closep) int fd = -1;
	char half[64];
	int r = audit_key_make(&key, err);

	if (r < 0)
		return r;
	snprintf(half, sizeof(half), "%s.new", name);
	fd = openat(dir, half, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot make '%s'", half);
	r = write_all(fd, key.seed, sizeof(key.seed), err);
	/* If a power failure lost the key, its signatures could not be attributed to anybody. */
	if (r == 0 && (fsync(fd) < 0 || renameat(dir, half, dir, name) < 0 || fsync(dir) < 0))
		r = err_errno(err, "cannot keep '%s'", name);
	return r;
}

int
audit_key_load(int dir, const char *name, bool make, struct audit_key *ret_key, struct err *err)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	OWN(closep) int fd = openat(dir, name, flags);
	unsigned char seed[AUDIT_KEY];
	struct stat st;
	int r;

	if (fd < 0 && errno == ENOENT && make) {
		r = make_file(dir, name, err);
		if (r < 0)
			return r;
		fd = openat(dir, name, flags);
	}
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open the key '%s'", name);
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0)
		return err_set(err, EPERM, "others may read the key '%s': `chmod 600` it, and think of "
		               "it as known", name);
	if (st.st_size != AUDIT_KEY)
		return err_set(err, EBADMSG, "'%s' is no key: it has %lld bytes and not %d", name,
		               (long long)st.st_size, AUDIT_KEY);
	r = read_exactly(fd, seed, sizeof(seed), err);
	if (r == 0)
		audit_key_from_seed(seed, ret_key);
	explicit_bzero(seed, sizeof(seed));
	return r;
}

void
audit_key_sign(const struct audit_key *key, const void *data, size_t len,
               unsigned char ret_signature[AUDIT_SIGNATURE])
{
	ed25519_sha512_sign(key->public, key->seed, len, data, ret_signature);
}

bool
audit_key_verify(const unsigned char public[AUDIT_KEY], const void *data, size_t len,
                 const unsigned char signature[AUDIT_SIGNATURE])
{
	return ed25519_sha512_verify(public, len, data, signature) == 1;
}

void
audit_signature_put(const unsigned char signature[AUDIT_SIGNATURE],
                    char ret_text[AUDIT_SIGNATURE_TEXT])
{
	codec_base64_digits(CODEC_BASE64, signature, AUDIT_SIGNATURE, ret_text);
}

bool
audit_signature_get(const char text[AUDIT_SIGNATURE_TEXT],
                    unsigned char ret_signature[AUDIT_SIGNATURE])
{
	unsigned char bytes[AUDIT_SIGNATURE];
	size_t len;

	if (codec_unbase64(CODEC_BASE64, text, AUDIT_SIGNATURE_TEXT, bytes, sizeof(bytes), &len) < 0 ||
	    len != AUDIT_SIGNATURE)
		return false;
	memcpy(ret_signature, bytes, AUDIT_SIGNATURE);
	return true;
}
