/* hash.c - see hash.h. */
#include "canon/hash.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"

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

int
hash_fd(int fd, uint64_t max, unsigned char ret_hash[HASH_LEN], uint64_t *ret_size,
        struct err *err)
{
	unsigned char block[64 * 1024];
	uint64_t size = 0;
	struct hash h;
	ssize_t n;

	hash_begin(&h);
	while ((n = read(fd, block, sizeof(block))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read");
		size += (uint64_t)n;
		if (size > max)
			return err_set(err, EFBIG, "this is over %llu bytes", (unsigned long long)max);
		hash_add(&h, block, (size_t)n);
	}
	hash_end(&h, ret_hash);
	*ret_size = size;
	return 0;
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
