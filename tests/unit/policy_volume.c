/* policy_volume.c - tests of policy/policy_volume. */
#include "policy/policy_volume.h"

#include <errno.h>

#include "base/err.h"
#include "policy/policy_yaml.h"
#include "test.h"
#include "volume/volume.h"

static const struct {
	const char *text, *name, *label, *path;         /* NAME NULL: refused */
	bool writes;
} parse_cases[] = {
	{ "v:/data", "v", "", "/data", true },
	{ "v:/data:rw", "v", "", "/data", true },
	{ "v:/data:ro", "v", "", "/data", false },
	{ "v:/data/", "v", "", "/data", true },
	{ "v:/data/:ro", "v", "", "/data", false },
	{ "a.b_c-1@l.2:/a/b", "a.b_c-1", "l.2", "/a/b", false },
	{ "v@l:/a:ro", "v", "l", "/a", false },
	{ "v:/a:b", "v", "", "/a:b", true },
	{ "v:/:ro/x", "v", "", "/:ro/x", true },
	{ .text = "" }, { .text = "v" }, { .text = "v:" }, { .text = "v:a" }, { .text = ":/a" }, { .text = "@l:/a" }, { .text = "v@:/a" },
	{ .text = "v@l:/a:rw" }, { .text = "v:/" }, { .text = "v:/:ro" }, { .text = "v://a" }, { .text = "v:/a//" },
	{ .text = "v:/a/../b" }, { .text = "v:/a/." }, { .text = ".v:/a" }, { .text = "v/x:/a" }, { .text = "v:/a\nb" },
	{ .text = "1234567890123456789012345678901234567890123456789:/a" },
};

TEST(policy_volume_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(parse_cases); i++) {
		struct policy_volume volume = {0};
		struct err err = {0};
		int r = policy_volume_parse(parse_cases[i].text, &volume, &err);

		CHECK((r == 0) == (parse_cases[i].name != NULL));
		if (r < 0) {
			CHECK(err.text[0] != '\0' && volume.name[0] == '\0');
			continue;
		}
		CHECK_STR(volume.name, parse_cases[i].name);
		CHECK_STR(volume.label, parse_cases[i].label);
		CHECK_STR(volume.path, parse_cases[i].path);
		CHECK(volume.writes == parse_cases[i].writes);
	}
}

TEST(policy_volume_names_are_those_of_volumes)
{
	static const char *const names[] = { "a", "A-b_c.9", "", ".a", "-a", "_a", "a/b", "a b", "a@b", "\xc3\xa9",
		"123456789012345678901234567890123456789012345678", "1234567890123456789012345678901234567890123456789" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK(policy_volume_name_ok(names[i]) == volume_name_ok(names[i]));
}

static const struct {
	const char *text, *name, *version, *path;       /* NAME NULL: refused */
} cache_cases[] = {
	{ "npm", "npm", "", "" }, { "npm:/srv/npm", "npm", "", "/srv/npm" }, { "npm:/srv/", "npm", "", "/srv" },
	{ "a-b.c_d@0123abcd", "a-b.c_d", "0123abcd", "" }, { "a@0123abcdef:/x:y", "a", "0123abcdef", "/x:y" },
	{ "a@0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "a",
	  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "" },
	{ .text = "" }, { .text = "@01234567" }, { .text = "a@" }, { .text = "a@0123456" }, { .text = "a@0123456g" },
	{ .text = "a@0123ABCD" }, { .text = "a@0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0" },
	{ .text = "a:" }, { .text = "a:x" }, { .text = "a:/" }, { .text = "a:/x/../y" }, { .text = ":/x" }, { .text = "a/b" },
	{ .text = "123456789012345678901234567890123" }, { .text = "a@01234567@01234567" },
};

TEST(policy_cache_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(cache_cases); i++) {
		struct policy_volume cache = {0};
		struct err err = {0};
		int r = policy_cache_parse(cache_cases[i].text, &cache, &err);

		CHECK((r == 0) == (cache_cases[i].name != NULL));
		if (r < 0) {
			CHECK(err.text[0] != '\0' && cache.name[0] == '\0');
			continue;
		}
		CHECK_STR(cache.name, cache_cases[i].name);
		CHECK_STR(cache.label, cache_cases[i].version);
		CHECK_STR(cache.path, cache_cases[i].path);
		CHECK(!cache.writes);
	}
}

static const struct {
	const char *yaml;
	size_t n;                       /* 0: refused */
} read_cases[] = {
	{ "'v:/data'", 1 }, { "['v:/a', 'v:/b:ro', 'w@l:/c']", 3 },
	{ "v:/data", 1 },
	{ "[]", 0 }, { "{v: /data}", 0 }, { "['v:/a', 'w:/a/']", 0 }, { "[[]]", 0 }, { "''", 0 }, { "v", 0 },
	{ "['a:/1','a:/2','a:/3','a:/4','a:/5','a:/6','a:/7','a:/8','a:/9','a:/10','a:/11','a:/12','a:/13','a:/14','a:/15','a:/16']",
	  16 },
	{ "['a:/1','a:/2','a:/3','a:/4','a:/5','a:/6','a:/7','a:/8','a:/9','a:/10','a:/11','a:/12','a:/13','a:/14','a:/15','a:/16',"
	  "'a:/17']", 0 },
};

TEST(policy_volumes_read)
{
	for (size_t i = 0; i < ARRAY_LEN(read_cases); i++) {
		OWN(node_freep) struct node *root = NULL;
		struct policy_volumes volumes = {0};
		struct err err = {0};
		int r;

		CHECK_OK(node_parse("x", read_cases[i].yaml, strlen(read_cases[i].yaml), &root, &err));
		r = policy_volumes_read(root, &volumes, &err);
		CHECK((r == 0) == (read_cases[i].n > 0) && volumes.n == read_cases[i].n);
		CHECK(r == 0 || strncmp(err.text, "x:1:", 4) == 0);
	}
}
