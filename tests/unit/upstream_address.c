/* upstream_address.c - tests of upstream/address. */
#include "upstream/address.h"

#include "test.h"

static const struct {
	const char *text;
	enum address_kind kind;
} judge_cases[] = {
	{ "1.1.1.1",                 ADDRESS_PUBLIC },
	{ "8.8.8.8",                 ADDRESS_PUBLIC },
	{ "9.255.255.255",           ADDRESS_PUBLIC },
	{ "11.0.0.0",                ADDRESS_PUBLIC },
	{ "100.63.255.255",          ADDRESS_PUBLIC },
	{ "100.128.0.0",             ADDRESS_PUBLIC },
	{ "172.15.255.255",          ADDRESS_PUBLIC },
	{ "172.32.0.0",              ADDRESS_PUBLIC },
	{ "192.0.1.0",               ADDRESS_PUBLIC },
	{ "192.167.255.255",         ADDRESS_PUBLIC },
	{ "198.17.255.255",          ADDRESS_PUBLIC },
	{ "198.20.0.0",              ADDRESS_PUBLIC },
	{ "223.255.255.255",         ADDRESS_PUBLIC },
	{ "168.63.129.15",           ADDRESS_PUBLIC },

	{ "10.0.0.0",                ADDRESS_PRIVATE },
	{ "10.255.255.255",          ADDRESS_PRIVATE },
	{ "100.64.0.0",              ADDRESS_PRIVATE },
	{ "100.127.255.255",         ADDRESS_PRIVATE },
	{ "127.0.0.1",               ADDRESS_PRIVATE },
	{ "127.255.255.254",         ADDRESS_PRIVATE },
	{ "172.16.0.0",              ADDRESS_PRIVATE },
	{ "172.31.255.255",          ADDRESS_PRIVATE },
	{ "192.168.255.255",         ADDRESS_PRIVATE },

	{ "169.254.169.254",         ADDRESS_LOCAL },
	{ "169.254.0.0",             ADDRESS_LOCAL },
	{ "100.100.100.200",         ADDRESS_LOCAL },
	{ "168.63.129.16",           ADDRESS_LOCAL },
	{ "192.0.0.192",             ADDRESS_LOCAL },

	{ "0.0.0.0",                 ADDRESS_UNUSABLE },
	{ "0.1.2.3",                 ADDRESS_UNUSABLE },
	{ "192.0.2.1",               ADDRESS_PRIVATE },
	{ "192.88.99.1",             ADDRESS_UNUSABLE },
	{ "198.18.0.1",              ADDRESS_PRIVATE },
	{ "198.19.255.255",          ADDRESS_PRIVATE },
	{ "224.0.0.1",               ADDRESS_UNUSABLE },
	{ "239.255.255.255",         ADDRESS_UNUSABLE },
	{ "240.0.0.1",               ADDRESS_UNUSABLE },
	{ "255.255.255.255",         ADDRESS_UNUSABLE },

	{ "2606:4700::1111",         ADDRESS_PUBLIC },
	{ "2001:4860:4860::8888",    ADDRESS_PUBLIC },
	{ "3ffe::1",                 ADDRESS_PUBLIC },

	{ "::1",                     ADDRESS_PRIVATE },
	{ "fc00::1",                 ADDRESS_PRIVATE },
	{ "fdff::1",                 ADDRESS_PRIVATE },
	{ "fec0::1",                 ADDRESS_PRIVATE },
	{ "64:ff9b:1::1",            ADDRESS_PRIVATE },

	{ "fe80::1",                 ADDRESS_LOCAL },
	{ "febf::1",                 ADDRESS_LOCAL },
	{ "fd00:ec2::254",           ADDRESS_LOCAL },
	{ "fd00:ec2::23",            ADDRESS_LOCAL },
	{ "fd20:ce::254",            ADDRESS_LOCAL },
	{ "fd00:42::42",             ADDRESS_LOCAL },
	{ "fd00:c1::a9fe:a9fe",      ADDRESS_LOCAL },
	{ "fd00:100::100:200",       ADDRESS_LOCAL },
	{ "fd00:a9fe:a9fe::1",       ADDRESS_LOCAL },
	{ "fe80::a9fe:a9fe",         ADDRESS_LOCAL },
	{ "::ffff:100.100.100.200",  ADDRESS_LOCAL },
	{ "64:ff9b::168.63.129.16",  ADDRESS_LOCAL },
	{ "64:ff9b::6464:64c8",      ADDRESS_LOCAL },
	{ "64:ff9b:1::a9fe:a9fe",    ADDRESS_LOCAL },
	{ "64:ff9b:1::10.0.0.1",     ADDRESS_PRIVATE },
	{ "2002:a9fe:a9fe::1",       ADDRESS_LOCAL },
	{ "2002:6464:64c8::",        ADDRESS_LOCAL },
	{ "fd00:43::42",             ADDRESS_PRIVATE },
	{ "fd20:ce:0:1::254",        ADDRESS_PRIVATE },

	{ "::",                      ADDRESS_UNUSABLE },
	{ "::2",                     ADDRESS_UNUSABLE },
	{ "::7f00:1",                ADDRESS_UNUSABLE },    /* the deprecated compatible form */
	{ "fd63:6c6f:6973:7465::1",  ADDRESS_UNUSABLE },
	{ "ff02::1",                 ADDRESS_UNUSABLE },
	{ "100::1",                  ADDRESS_UNUSABLE },
	{ "2001::1",                 ADDRESS_UNUSABLE },
	{ "2001:2::1",               ADDRESS_PRIVATE },
	{ "2001:10::1",              ADDRESS_UNUSABLE },
	{ "2001:2f::1",              ADDRESS_UNUSABLE },
	{ "2001:db8::1",             ADDRESS_PRIVATE },
	{ "3fff:fff::1",             ADDRESS_PRIVATE },
	{ "4000::1",                 ADDRESS_UNUSABLE },
	{ "5f00::1",                 ADDRESS_UNUSABLE },

	/* IPv4 in disguise. */
	{ "::ffff:1.1.1.1",          ADDRESS_PUBLIC },
	{ "::ffff:127.0.0.1",        ADDRESS_PRIVATE },
	{ "::ffff:169.254.169.254",  ADDRESS_LOCAL },
	{ "::ffff:0.0.0.0",          ADDRESS_UNUSABLE },
	{ "::ffff:0:10.0.0.1",       ADDRESS_PRIVATE },
	{ "64:ff9b::1.1.1.1",        ADDRESS_PUBLIC },
	{ "64:ff9b::10.0.0.1",       ADDRESS_PRIVATE },
	{ "64:ff9b::169.254.169.254", ADDRESS_LOCAL },
	{ "2002:101:101::1",         ADDRESS_PUBLIC },
	{ "2002:7f00:1::1",          ADDRESS_PRIVATE },
	{ "2002:a9fe:a9fe::1",       ADDRESS_LOCAL },
	{ "2606:4700::5efe:1.1.1.1", ADDRESS_PUBLIC },
	{ "2606:4700::5efe:10.0.0.1", ADDRESS_PRIVATE },
	{ "2606:4700::200:5efe:169.254.169.254", ADDRESS_LOCAL },
	{ "fe80::5efe:1.1.1.1",      ADDRESS_LOCAL },
};

TEST(address_judges)
{
	for (size_t i = 0; i < ARRAY_LEN(judge_cases); i++) {
		struct address a;

		CHECK(address_parse(judge_cases[i].text, &a));
		if (address_judge(&a, NULL) != judge_cases[i].kind)
			test_fail(__FILE__, __LINE__, "%s is of kind %d, not %d", judge_cases[i].text,
			          address_judge(&a, NULL), judge_cases[i].kind);
	}
}

TEST(address_allows)
{
	static const struct {
		const char *text;
		bool private;
		unsigned bits;
		bool want;
	} cases[] = {
		{ "1.1.1.1",          false, 0,       true },
		{ "1.1.1.1",          true,  128,     true },
		{ "10.0.0.1",         false, 0,       false },
		{ "10.0.0.1",         false, 96,      false },
		{ "10.0.0.1",         false, 96 + 7,  false },
		{ "10.0.0.1",         false, 96 + 8,  true },
		{ "10.0.0.1",         true,  0,       true },
		{ "169.254.169.254",  true,  0,       false },
		{ "169.254.169.254",  true,  96 + 8,  false },
		{ "169.254.169.254",  false, 96 + 16, true },
		{ "100.100.100.200",  false, 96 + 31, false },
		{ "100.100.100.200",  false, 128,     true },
		{ "172.16.0.1",       false, 96 + 8,  false },
		{ "172.16.0.1",       false, 96 + 12, true },
		{ "198.18.0.5",       false, 0,       false },
		{ "198.18.0.5",       true,  0,       true },
		{ "198.18.0.5",       false, 96 + 14, false },
		{ "198.18.0.5",       false, 96 + 15, true },
		{ "203.0.113.9",      false, 96 + 23, false },
		{ "203.0.113.9",      false, 128,     true },
		{ "2001:db8::1",      false, 16,      false },
		{ "2001:db8::1",      false, 32,      true },
		{ "fc00::1",          false, 6,       false },
		{ "fc00::1",          false, 7,       true },
		{ "fd00:ec2::254",    false, 7,       false },
		{ "fd00:ec2::254",    false, 32,      true },
		{ "fe80::1",          true,  7,       false },
		{ "64:ff9b::a00:1",   false, 96,      false },
		{ "64:ff9b::a00:1",   false, 104,     true },
		{ "2002:a00:1::",     false, 16,      false },
		{ "2002:a00:1::",     false, 24,      true },
		{ "64:ff9b:1::a9fe:a9fe", false, 127, false },
		{ "0.0.0.0",          true,  128,     false },
		{ "::ffff:127.0.0.1", false, 0,       false },
	};
	const char *what;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct address a;

		CHECK(address_parse(cases[i].text, &a));
		if (address_is_allowed(&a, cases[i].private, cases[i].bits, &what) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s by %u bits: not %d", cases[i].text, cases[i].bits, cases[i].want);
	}
	CHECK_STR(what, "loopback");
}

TEST(address_parses)
{
	static const char *const none[] = {
		"", "[", "]", "[]", "localhost", "1.2.3", "01.2.3.4", "0x7f.0.0.1", "1.2.3.4.5",
		"1.2.3.4 ", "::g", "[::1", "::1]", "fe80::1%eth0", "1.2.3.4:80",
		"0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000",
	};
	struct address a;
	char text[ADDRESS_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		if (address_parse(none[i], &a))
			test_fail(__FILE__, __LINE__, "\"%s\" is an address", none[i]);
	CHECK(address_parse("[2001:DB8:0::1]", &a));
	CHECK_STR(address_format(&a, text), "2001:db8::1");
	CHECK(address_parse("192.0.2.1", &a));
	CHECK_STR(address_format(&a, text), "192.0.2.1");
}

TEST(address_interleaves)
{
	static const struct {
		const char *given[5], *want[5];
	} cases[] = {
		{ { NULL }, { NULL } },
		{ { "1.1.1.1" }, { "1.1.1.1" } },
		{ { "1.1.1.1", "1.1.1.2", "::1" }, { "::1", "1.1.1.1", "1.1.1.2" } },
		{ { "::1", "::2", "::3", "1.1.1.1" }, { "::1", "1.1.1.1", "::2", "::3" } },
		{ { "1.1.1.1", "::1", "1.1.1.2", "::2" }, { "::1", "1.1.1.1", "::2", "1.1.1.2" } },
	};
	struct address list[5];
	char text[ADDRESS_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = 0;

		for (; n < 5 && cases[i].given[n] != NULL; n++)
			CHECK(address_parse(cases[i].given[n], &list[n]));
		address_interleave(list, n);
		for (size_t j = 0; j < n; j++)
			CHECK_STR(address_format(&list[j], text), cases[i].want[j]);
	}
}

TEST(address_leads_to)
{
	static const struct {
		const char *address, *inner;
	} cases[] = {
		{ "1.2.3.4",                  "" },
		{ "2606:2800:220:1::10",      "" },
		{ "::ffff:93.184.215.14",     "93.184.215.14" },
		{ "64:ff9b::5db8:d70e",       "93.184.215.14" },
		{ "2002:5db8:d70e::1",        "93.184.215.14" },
		{ "64:ff9b:1:5db8:d7:e00::",  "93.184.215.14 0.0.0.0" },
		{ "64:ff9b:1::5db8:d70e",     "0.0.0.0 93.184.215.14" },
		{ "2606:2800::5efe:5db8:d70e", "93.184.215.14" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct address a, inner[ADDRESS_EMBEDDED_MAX];
		char got[256] = "", text[ADDRESS_TEXT_MAX];
		size_t n;

		CHECK(address_parse(cases[i].address, &a));
		n = address_embedded(&a, inner);
		for (size_t k = 0; k < n; k++)
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", k > 0 ? " " : "",
			         address_format(&inner[k], text));
		CHECK_STR(got, cases[i].inner);
	}
}
