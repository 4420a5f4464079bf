/* canon_hash.c - tests of canon/hash. */
#include "canon/hash.h"

#include <errno.h>
#include <unistd.h>

#include "test.h"

static const struct {
	const char *data, *want;
} cases[] = {
	{ "", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
};

TEST(hash_names)
{
	unsigned char hash[HASH_LEN], again[HASH_LEN];
	char name[HASH_NAME + 1];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		hash_of(cases[i].data, strlen(cases[i].data), hash);
		hash_name(hash, name);
		CHECK_STR(name, cases[i].want);
		CHECK(hash_parse_name(name, again));
		CHECK(memcmp(hash, again, HASH_LEN) == 0);
	}
}

static const char *const no_names[] = {
	"", "sha256:", "sha256:ab",
	"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"sha256:E3B0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b8555",
	"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85 ",
	"sha256:g3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"sha512:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
};

TEST(hash_names_are_strict)
{
	unsigned char hash[HASH_LEN];

	for (size_t i = 0; i < ARRAY_LEN(no_names); i++)
		CHECK(!hash_parse_name(no_names[i], hash));
}

TEST(hash_of_a_descriptor)
{
	unsigned char hash[HASH_LEN], want[HASH_LEN];
	uint64_t size = 0;
	int fds[2];

	for (uint64_t max = 2; max < 4; max++) {
		CHECK_OK(pipe(fds));
		CHECK(write(fds[1], "abc", 3) == 3);
		close(fds[1]);
		CHECK(hash_fd(fds[0], max, hash, &size, NULL) == (max < 3 ? -EFBIG : 0));
		close(fds[0]);
	}
	hash_of("abc", 3, want);
	CHECK(size == 3 && memcmp(hash, want, HASH_LEN) == 0);
}
