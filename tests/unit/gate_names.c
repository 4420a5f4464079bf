/* gate_names.c - the table of names and their synthetic addresses. */
#include "proc/gate/gate_names.c"

#include "test.h"

static struct gate_names *
open_names(int fd)
{
	struct gate_names *names = NULL;

	CHECK_OK(gate_names_new(fd, &names, NULL));
	return names;
}

TEST(gate_names_remembers)
{
	OWN(closep) int fd = memfd_create("names", MFD_CLOEXEC);
	struct gate_names *names = open_names(fd);
	uint32_t a, b;

	a = gate_names_add(names, "a.example", 1);
	b = gate_names_add(names, "b.example", 2);
	CHECK(a >= CELL_NET_RESERVED && b > a);
	CHECK_U64(gate_names_add(names, "a.example", 3), a);
	CHECK_STR(gate_names_get(names, a), "a.example");
	gate_names_free(names);

	names = open_names(fd);
	CHECK_STR(gate_names_get(names, b), "b.example");
	CHECK_U64(gate_names_add(names, "b.example", 4), b);
	CHECK(gate_names_add(names, "c.example", 5) > b);
	gate_names_free(names);
}

TEST(gate_names_unknown)
{
	OWN(closep) int fd = memfd_create("names", MFD_CLOEXEC);
	struct gate_names *names = open_names(fd);

	CHECK(gate_names_get(names, 0) == NULL);
	CHECK(gate_names_get(names, CELL_NET_RESERVED) == NULL);
	CHECK(gate_names_get(names, CELL_NET_NAMES_MAX) == NULL);
	CHECK(gate_names_get(names, UINT32_MAX) == NULL);
	CHECK_U64(gate_names_add(names, "", 1), 0);
	gate_names_free(names);
}

TEST(gate_names_full)
{
	OWN(closep) int fd = memfd_create("names", MFD_CLOEXEC);
	struct gate_names *names = open_names(fd);
	char name[32];
	uint32_t first;

	for (int i = CELL_NET_RESERVED; i < CELL_NET_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "n%d.example", i);
		CHECK_U64(gate_names_add(names, name, (uint64_t)i), (uint64_t)i);
	}
	/* None was left alone long enough. */
	CHECK_U64(gate_names_add(names, "one.more", 5000), 0);
	first = gate_names_add(names, "n16.example", 5001);
	CHECK_U64(first, CELL_NET_RESERVED);
	/* Then the oldest goes, and its name with it. */
	CHECK_U64(gate_names_add(names, "one.more", 5000 + GATE_NAMES_REUSE_MS), first + 1);
	CHECK_STR(gate_names_get(names, first + 1), "one.more");
	CHECK_STR(gate_names_get(names, first), "n16.example");
	CHECK_U64(gate_names_add(names, "n18.example", 5000 + GATE_NAMES_REUSE_MS), first + 2);
	gate_names_free(names);
}

static void
write_entry(int fd, uint32_t number, const struct names_entry *entry)
{
	CHECK(pwrite(fd, entry, sizeof(*entry), number * (off_t)sizeof(*entry)) ==
	      (ssize_t)sizeof(*entry));
}

/* What a gate that was taken over may have left. */
TEST(gate_names_hostile_file)
{
	OWN(closep) int fd = memfd_create("names", MFD_CLOEXEC);
	struct names_entry entry = { .asked_ms = UINT64_MAX };
	struct gate_names *names;

	CHECK(ftruncate(fd, NAMES_SIZE) == 0);
	write_entry(fd, 0, &entry);                     /* more than there can be */
	memset(entry.name, 'a', sizeof(entry.name));    /* without an end */
	write_entry(fd, 16, &entry);
	entry = (struct names_entry){ .name = "Upper.example" };
	write_entry(fd, 17, &entry);
	entry = (struct names_entry){ .name = "10.0.0.1" };
	write_entry(fd, 18, &entry);
	entry = (struct names_entry){ .name = "twice.example" };
	write_entry(fd, 19, &entry);
	write_entry(fd, 20, &entry);
	entry = (struct names_entry){ .name = "a b" };
	write_entry(fd, 21, &entry);
	entry = (struct names_entry){ .name = "a.example:80" };
	write_entry(fd, 22, &entry);

	names = open_names(fd);
	CHECK(gate_names_get(names, 16) == NULL);
	CHECK(gate_names_get(names, 17) == NULL);
	CHECK(gate_names_get(names, 18) == NULL);
	CHECK_STR(gate_names_get(names, 19), "twice.example");
	CHECK(gate_names_get(names, 20) == NULL);
	CHECK(gate_names_get(names, 21) == NULL);
	CHECK(gate_names_get(names, 22) == NULL);
	CHECK(gate_names_add(names, "new.example", UINT64_MAX / 2) != 0);
	gate_names_free(names);
}
