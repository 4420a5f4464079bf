/* witness_programs.c - tests of witness/programs: hashes of files, read once. */
#include "witness/programs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

OWN_BY(programs_freep, struct programs *, programs_free)

TEST(witness_programs_hash)
{
	OWN(programs_freep) struct programs *p = programs_new(0);
	OWN(closep) int fd = memfd_create("program", MFD_CLOEXEC);
	unsigned char hash[HASH_LEN], want[HASH_LEN];
	int ends[2];

	CHECK(p != NULL && fd >= 0 && write(fd, "abc", 3) == 3);
	hash_of("abc", 3, want);
	CHECK(programs_hash(p, fd, 0, hash) == NULL);
	CHECK(memcmp(hash, want, HASH_LEN) == 0);
	CHECK(programs_hash(p, fd, 0, hash) == NULL);
	CHECK(memcmp(hash, want, HASH_LEN) == 0);
	/* Another size, so another file. */
	CHECK(write(fd, "d", 1) == 1);
	hash_of("abcd", 4, want);
	CHECK(programs_hash(p, fd, 0, hash) == NULL);
	CHECK(memcmp(hash, want, HASH_LEN) == 0);
	CHECK(pipe(ends) == 0);
	CHECK_STR(programs_hash(p, ends[0], 0, hash), "it is no file");
	close(ends[0]);
	close(ends[1]);
}

TEST(witness_programs_are_bounded)
{
	OWN(programs_freep) struct programs *p = programs_new(0);
	OWN(closep) int large = memfd_create("large", MFD_CLOEXEC);
	OWN(closep) int small = memfd_create("small", MFD_CLOEXEC);
	unsigned char hash[HASH_LEN];

	CHECK(ftruncate(large, (off_t)PROGRAMS_FILE_MAX + 1) == 0);
	CHECK_STR(programs_hash(p, large, 0, hash), "its file is over 512 MiB");
	/* A file without blocks is read quickly. */
	CHECK(ftruncate(large, (off_t)PROGRAMS_BURST_MAX) == 0 && write(small, "x", 1) == 1);
	CHECK(programs_hash(p, large, 0, hash) == NULL);
	CHECK_STR(programs_hash(p, small, 0, hash), "too many bytes of programs were read in this second");
	/* It is known, and so costs nothing. */
	CHECK(programs_hash(p, large, 0, hash) == NULL);
	CHECK(programs_hash(p, small, 10, hash) == NULL);
}
