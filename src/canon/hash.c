/* hash.c - see hash.h. */
#include "canon/hash.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"

void
hash_begin(struct hash *h)
{
	sha256_init(&h->sha);
}

void
hash_add(struct hash *h, const void *data, size_t len)
{
	sha256_update(&h->sha, len, data);
}

void
hash_end(struct hash *h, unsigned char ret_hash[HASH_LEN])
{
	sha256_digest(&h->sha, HASH_LEN, ret_hash);
}

void
hash_of(const void *data, size_t len, unsigned char ret_hash[HASH_LEN])
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, data, len);
	hash_end(&h, ret_hash);
}

static bool
is_zero(const unsigned char *data, size_t len)
{
	return len > 0 && data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

static int
write_block(int to, const unsigned char *data, size_t len, struct err *err)
{
	if (!is_zero(data, len))
		return write_all(to, data, len, err);
	return lseek(to, (off_t)len, SEEK_CUR) < 0 ? err_errno(err, "cannot write") : 0;
}

/* With TO < 0, nothing is written. */
static int
hash_pass(int from, int to, uint64_t max, unsigned char ret_hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	unsigned char block[64 * 1024];
	uint64_t size = 0;
	struct hash h;
	ssize_t n;
	int r = 0;

	hash_begin(&h);
	while (r == 0 && (n = read(from, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read");
		size += (uint64_t)n;
		if (size > max)
			return err_set(err, EFBIG, "this is over %llu bytes", (unsigned long long)max);
		hash_add(&h, block, (size_t)n);
		r = to < 0 ? 0 : write_block(to, block, (size_t)n, err);
	}
	hash_end(&h, ret_hash);
	*ret_size = size;
	return r;
}

int
hash_fd(int fd, uint64_t max, unsigned char ret_hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	return hash_pass(fd, -1, max, ret_hash, ret_size, err);
}

int
hash_copy(int from, int to, uint64_t max, unsigned char ret_hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	int r = hash_pass(from, to, max, ret_hash, ret_size, err);

	return r == 0 && ftruncate(to, (off_t)*ret_size) < 0 ? err_errno(err, "cannot write") : r;
}

void
hash_name(const unsigned char hash[HASH_LEN], char ret_name[HASH_NAME + 1])
{
	memcpy(ret_name, HASH_PREFIX, sizeof(HASH_PREFIX));
	codec_hex(hash, HASH_LEN, ret_name + sizeof(HASH_PREFIX) - 1);
}

bool
hash_parse_name(const char *name, unsigned char ret_hash[HASH_LEN])
{
	const size_t prefix = sizeof(HASH_PREFIX) - 1;

	return strlen(name) == HASH_NAME && strncmp(name, HASH_PREFIX, prefix) == 0 &&
	       codec_unhex_lower(name + prefix, ret_hash, HASH_LEN);
}
