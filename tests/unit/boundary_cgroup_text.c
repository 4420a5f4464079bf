/* boundary_cgroup_text.c - tests of what is read about cgroups and their mounts. */
#include <sys/sysmacros.h>

#include "boundary/cgroup/cgroup_parts.h"
#include "test.h"

static const char hybrid[] =
	"33 25 0:30 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
	"34 33 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	"37 33 0:34 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	"42 33 0:39 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd\n"
	"43 33 0:40 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
static const char hybrid_own[] =
	"5:memory:/user.slice/a:b\n4:cpuacct,cpu:/\n1:name=systemd:/init.scope\n0::/x\n";

static void
read_both(struct cgroup_hierarchies *hs, const char *mounts, const char *own)
{
	static char text[4096], groups[1024];
	struct mountinfo_line line;
	char *cursor = text;

	*hs = (struct cgroup_hierarchies){ 0 };
	snprintf(text, sizeof(text), "%s", mounts);
	snprintf(groups, sizeof(groups), "%s", own);
	while (mountinfo_next(&cursor, &line))
		cgroup_note_mount(hs, &line);
	cgroup_note_own(hs, groups);
}

TEST(cgroup_text_hybrid)
{
	struct cgroup_hierarchies hs;
	char dir[PATH_MAX];

	read_both(&hs, hybrid, hybrid_own);
	CHECK(hs.n == 3);
	CHECK(hs.list[0].version == 1);
	CHECK(hs.list[0].carries == (CGROUP_CPUS | CGROUP_CPUACCT));
	CHECK(cgroup_own_dir(&hs.list[0], dir));
	CHECK_STR(dir, "/sys/fs/cgroup/cpu,cpuacct");
	CHECK(hs.list[1].carries == CGROUP_MEMORY);
	CHECK(cgroup_own_dir(&hs.list[1], dir));
	CHECK_STR(dir, "/sys/fs/cgroup/memory/user.slice/a:b");
	CHECK(hs.list[2].version == 2 && hs.list[2].carries == 0);
	CHECK(cgroup_own_dir(&hs.list[2], dir));
	CHECK_STR(dir, "/sys/fs/cgroup/unified/x");
}

static const struct {
	const char *root, *own, *want;
} own_cases[] = {
	{ "/",     "/",          "/cg"       },
	{ "/",     "/a/b",       "/cg/a/b"   },
	{ "/a",    "/a/b",       "/cg/b"     },
	{ "/a",    "/a",         "/cg"       },
	{ "/a",    "/ab",        NULL        },
	{ "/a",    "/",          NULL        },
	{ "/",     "/../b",      NULL        },
	{ "/",     "/..",        NULL        },
	{ "/",     "/..b",       "/cg/..b"   },
	{ "/../x", "/a",         NULL        },
};

TEST(cgroup_text_own_dir)
{
	char mounts[256], own[64], dir[PATH_MAX];
	struct cgroup_hierarchies hs;

	for (size_t i = 0; i < ARRAY_LEN(own_cases); i++) {
		snprintf(mounts, sizeof(mounts), "1 2 0:3 %s /cg rw - cgroup2 none rw\n",
		         own_cases[i].root);
		snprintf(own, sizeof(own), "0::%s\n", own_cases[i].own);
		read_both(&hs, mounts, own);
		CHECK(hs.n == 1);
		CHECK(cgroup_own_dir(&hs.list[0], dir) == (own_cases[i].want != NULL));
		if (own_cases[i].want != NULL)
			CHECK_STR(dir, own_cases[i].want);
	}
}

TEST(cgroup_text_whole_mount_is_preferred)
{
	struct cgroup_hierarchies hs;

	read_both(&hs, "1 2 0:3 /a/b /part rw - cgroup2 none rw\n"
	          "1 2 0:3 / /whole rw - cgroup2 none rw\n"
	          "1 2 0:3 / /again rw - cgroup2 none rw\n", "0::/\n");
	CHECK(hs.n == 1);
	CHECK_STR(hs.list[0].point, "/whole");
}

static const struct {
	const char *line, *point, *source;  /* no point: not well-formed */
} line_cases[] = {
	{ "1 2 8:1 / /a\\040b\\134c rw shared:1 master:2 - ext4 /dev/sd\\011a rw", "/a b\\c",
	  "/dev/sd\ta" },
	{ "1 2 8:1 / /p rw - tmpfs  rw", "/p", "" },
	{ "1 2 8:1 / /p rw - tmpfs none ", "/p", "none" },
	{ "1 2 8:1 / /\\777\\04 rw - tmpfs none rw", "/\\777\\04", "none" },
	{ "1 2 8:1 / /p rw - tmpfs none", NULL, NULL },
	{ "1 2 8:1 / /p rw tmpfs none rw", NULL, NULL },
	{ "1 2 8 / /p rw - tmpfs none rw", NULL, NULL },
	{ "1 2 8:x / /p rw - tmpfs none rw", NULL, NULL },
	{ "1 2 :1 / /p rw - tmpfs none rw", NULL, NULL },
	{ "1 2 8:1 /", NULL, NULL },
	{ "", NULL, NULL },
};

TEST(cgroup_text_mountinfo_lines)
{
	struct mountinfo_line line;
	char text[256], *cursor;

	for (size_t i = 0; i < ARRAY_LEN(line_cases); i++) {
		snprintf(text, sizeof(text), "%s\n", line_cases[i].line);
		cursor = text;
		CHECK(mountinfo_next(&cursor, &line) == (line_cases[i].point != NULL));
		if (line_cases[i].point == NULL)
			continue;
		CHECK(line.major == 8 && line.minor == 1);
		CHECK_STR(line.point, line_cases[i].point);
		CHECK_STR(line.source, line_cases[i].source);
		CHECK(!mountinfo_next(&cursor, &line));
	}
}

TEST(cgroup_text_controllers)
{
	CHECK(cgroup_parse_controllers("cpuset cpu io memory hugetlb pids rdma\n") == CGROUP_ALL);
	CHECK(cgroup_parse_controllers("") == 0);
	CHECK(cgroup_parse_controllers("\n") == 0);
	CHECK(cgroup_parse_controllers("memor memoryy cpus") == 0);
	CHECK(cgroup_parse_controllers("pids") == CGROUP_PIDS);
}

TEST(cgroup_text_keys)
{
	const char text[] = "low 0\noom 3\noom_kill 42\nlast 7";

	CHECK_U64(cgroup_parse_key(text, "oom"), 3);
	CHECK_U64(cgroup_parse_key(text, "oom_kill"), 42);
	CHECK_U64(cgroup_parse_key(text, "last"), 7);
	CHECK_U64(cgroup_parse_key(text, "kill"), 0);
	CHECK_U64(cgroup_parse_key("", "x"), 0);
}

TEST(cgroup_text_usage)
{
	uint64_t read, written;

	cgroup_parse_io("8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=5 wbytes=7", &read, &written);
	CHECK(read == 15 && written == 27);
	cgroup_parse_io("8:0 Read 3\n8:0 Write 4\n8:0 Sync 9\nTotal 16\n", &read, &written);
	CHECK(read == 3 && written == 4);
	cgroup_parse_io("", &read, &written);
	CHECK(read == 0 && written == 0);
	CHECK_U64(cgroup_parse_pressure("some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=9.00"), 150);
	CHECK_U64(cgroup_parse_pressure("some avg10=100.00 avg60=0"), 10000);
	CHECK_U64(cgroup_parse_pressure("some avg10=1000.00"), 0);
	CHECK_U64(cgroup_parse_pressure("some avg10=1"), 0);
	CHECK_U64(cgroup_parse_pressure(""), 0);
}

TEST(cgroup_text_names)
{
	char text[64], longest[CGROUP_ID_MAX + 16] = "cloister-";

	cgroup_name_limits(CGROUP_ALL, text, sizeof(text));
	CHECK_STR(text, "memory, cpus, pids and io");
	cgroup_name_limits(CGROUP_MEMORY | CGROUP_IO, text, sizeof(text));
	CHECK_STR(text, "memory and io");
	cgroup_name_limits(CGROUP_PIDS, text, sizeof(text));
	CHECK_STR(text, "pids");

	CHECK(cgroup_is_cell_name("cloister-a1_B-2"));
	CHECK(!cgroup_is_cell_name("cloister-"));
	CHECK(!cgroup_is_cell_name("cloister"));
	CHECK(!cgroup_is_cell_name("xcloister-a"));
	CHECK(!cgroup_is_cell_name("cloister-a/b"));
	CHECK(!cgroup_is_cell_name("cloister-.."));
	memset(longest + 9, 'a', CGROUP_ID_MAX);
	CHECK(cgroup_is_cell_name(longest));
	longest[9 + CGROUP_ID_MAX] = 'a';
	CHECK(!cgroup_is_cell_name(longest));
}

static const struct {
	unsigned major, minor;          /* what the cell uses */
	const char *line;
	bool unknown;
} disk_cases[] = {
	{ 7, 0,  "", false },
	{ 0, 42, "1 2 0:42 / /p rw - tmpfs none rw\n", false },
	{ 0, 42, "1 2 0:42 / /p rw - overlay overlay rw,upperdir=/x\n", true },
	{ 0, 42, "1 2 0:42 / /p rw - nfs4 host:/x rw\n", true },
	{ 0, 42, "1 2 0:42 / /p rw - 9p /dev/null rw\n", true },
};

TEST(cgroup_text_disks)
{
	struct mountinfo_line line;
	struct cgroup_disks d;
	char text[256], *cursor;
	dev_t dev;

	for (size_t i = 0; i < ARRAY_LEN(disk_cases); i++) {
		dev = makedev(disk_cases[i].major, disk_cases[i].minor);
		snprintf(text, sizeof(text), "%s", disk_cases[i].line);
		cgroup_disks_init(&d, &dev, 1);
		for (cursor = text; mountinfo_next(&cursor, &line);)
			cgroup_note_disk(&d, &line);
		cgroup_disks_finish(&d);
		cgroup_disks_make_whole(&d);
		CHECK(d.unknown == disk_cases[i].unknown);
		CHECK(d.n == (disk_cases[i].major != 0));
	}
}

TEST(cgroup_text_disks_are_bounded_and_unique)
{
	dev_t devices[CGROUP_DEVICES_MAX + 1];
	struct cgroup_disks d;

	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		devices[i] = makedev(4000, 1);
	cgroup_disks_init(&d, devices, ARRAY_LEN(devices));
	CHECK(d.n == 1 && !d.unknown);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++)
		devices[i] = makedev(4000, (unsigned)i);
	cgroup_disks_init(&d, devices, ARRAY_LEN(devices));
	CHECK(d.n == CGROUP_DEVICES_MAX && d.unknown);
}
