/* vm_module.c - tests of vm/module. */
#include "vm/module.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>

#include "base/err.h"
#include "test.h"

#define RELEASE "6.1.0-1-cloud-test"

/* A module of three sections, of which the second is .modinfo. */
struct made {
	Elf64_Ehdr head;
	Elf64_Shdr sections[3];
	char names[32];
	char info[256];
};

/* INFO has a NUL behind each string; LEN counts the last one too. */
static void
make(struct made *m, const char *info, size_t len)
{
	static const char names[] = "\0.modinfo\0.shstrtab";

	CHECK(len <= sizeof(m->info));
	*m = (struct made){
		.head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_REL,
		          .e_machine = EM_X86_64, .e_version = EV_CURRENT,
		          .e_shoff = offsetof(struct made, sections), .e_ehsize = sizeof(Elf64_Ehdr),
		          .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2 },
		.sections = {
			[1] = { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_size = len,
			        .sh_offset = offsetof(struct made, info) },
			[2] = { .sh_name = 10, .sh_type = SHT_STRTAB, .sh_size = sizeof(names),
			        .sh_offset = offsetof(struct made, names) },
		},
	};
	memcpy(m->names, names, sizeof(names));
	memcpy(m->info, info, len);
}

/* With the three strings that every module has. */
static void
make_module(struct made *m, const char *name, const char *depends)
{
	char info[sizeof(m->info)];
	int len = snprintf(info, sizeof(info), "name=%s%cdepends=%s%cvermagic=" RELEASE " SMP", name, 0,
	                   depends, 0);

	make(m, info, (size_t)len + 1);
}

TEST(module_parse)
{
	static const char text[] = "license=GPL\0depends=a,b\0xname=no\0name=virtio\0name=later\0intree=Y\0"
	                           "vermagic=6.1.0 SMP mod_unload ";
	struct made m;
	struct module_info info;

	make(&m, text, sizeof(text));
	for (int arm = 0; arm < 2; arm++) {
		m.head.e_machine = arm ? EM_AARCH64 : EM_X86_64;
		CHECK_OK(module_parse(&m, sizeof(m), &info, NULL));
		CHECK_STR(info.name, "virtio");
		CHECK_STR(info.depends, "a,b");
		CHECK_STR(info.vermagic, "6.1.0 SMP mod_unload ");
	}
}

/* Every length but the whole is refused. */
TEST(module_parse_cut_off)
{
	struct made m;
	struct module_info info = {0};

	make_module(&m, "x", "");
	for (size_t len = 0; len < sizeof(m); len++) {
		OWN(freep) char *copy = malloc(len + 1);
		size_t end = m.sections[1].sh_offset + m.sections[1].sh_size;

		CHECK(copy != NULL);
		memcpy(copy, &m, len);
		CHECK(module_parse(copy, len, &info, NULL) == (len < end ? -EBADMSG : 0));
	}
}

/* The bytes at OFFSET become VALUE. */
static const struct {
	const char *what;
	size_t offset, size;
	uint64_t value;
} broken[] = {
#define HEAD(member) offsetof(Elf64_Ehdr, member), sizeof(((Elf64_Ehdr *)0)->member)
#define SECTION(i, member) offsetof(struct made, sections[i].member), sizeof(((Elf64_Shdr *)0)->member)
	{ "magic", 0, 1, 0 },
	{ "32 bits", EI_CLASS, 1, ELFCLASS32 },
	{ "big endian", EI_DATA, 1, ELFDATA2MSB },
	{ "executable", HEAD(e_type), ET_EXEC },
	{ "another machine", HEAD(e_machine), EM_RISCV },
	{ "size of headers", HEAD(e_shentsize), 63 },
	{ "no sections", HEAD(e_shnum), 0 },
	{ "too few sections", HEAD(e_shnum), 1 },
	{ "names are no section", HEAD(e_shnum), 2 },
	{ "no names", HEAD(e_shstrndx), 3 },
	{ "names elsewhere", HEAD(e_shstrndx), SHN_XINDEX },
	{ "headers behind the end", HEAD(e_shoff), sizeof(struct made) - 100 },
	{ "headers far behind", HEAD(e_shoff), UINT64_MAX - 63 },
	{ "info behind the end", SECTION(1, sh_offset), sizeof(struct made) },
	{ "info far behind", SECTION(1, sh_offset), UINT64_MAX - 10 },
	{ "size of info", SECTION(1, sh_size), UINT64_MAX },
	{ "info without bytes", SECTION(1, sh_type), SHT_NOBITS },
	{ "empty info", SECTION(1, sh_size), 0 },
	{ "name behind the names", SECTION(1, sh_name), 20 },
	{ "name far behind", SECTION(1, sh_name), UINT32_MAX },
	{ "another name", SECTION(1, sh_name), 2 },
	{ "names cut off", SECTION(2, sh_size), 9 },
	{ "no end", SECTION(1, sh_size), 20 },
};

TEST(module_parse_broken)
{
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		struct module_info info = { .name = "untouched" };
		struct made m;

		make_module(&m, "x", "");
		memcpy((char *)&m + broken[i].offset, &broken[i].value, broken[i].size);
		if (module_parse(&m, sizeof(m), &info, NULL) != -EBADMSG)
			test_fail(__FILE__, __LINE__, "accepted: %s", broken[i].what);
		CHECK_STR(info.name, "untouched");
	}
}

/* The offset of a header must not wrap around to one that is right. */
TEST(module_parse_wraps)
{
	struct module_info info;
	struct made m;

	make_module(&m, "x", "");
	m.head.e_shoff = UINT64_MAX - sizeof(Elf64_Shdr) + 1;
	m.head.e_shnum = 5;
	m.head.e_shstrndx = 4;
	CHECK(m.head.e_shoff + 4 * sizeof(Elf64_Shdr) == offsetof(struct made, sections[2]));
	CHECK_ERR(module_parse(&m, sizeof(m), &info, NULL), EBADMSG);
}

TEST(module_parse_wants_three)
{
	static const struct {
		const char *text;
		size_t len;
		const char *missing;
	} cases[] = {
#define CASE(text, missing) { text, sizeof(text), missing }
		CASE("depends=\0vermagic=1", "name="),
		CASE("name=x\0vermagic=1", "depends="),
		CASE("name=x\0depends=", "vermagic="),
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct module_info info;
		struct made m;
		struct err err = {0};

		make(&m, cases[i].text, cases[i].len);
		CHECK_ERR(module_parse(&m, sizeof(m), &info, &err), EBADMSG);
		CHECK(strstr(err.text, cases[i].missing) != NULL);
	}
}

TEST(module_is_for)
{
	CHECK(module_is_for("6.1.0-50-cloud-amd64 SMP", "6.1.0-50-cloud-amd64"));
	CHECK(module_is_for("6.1.0", "6.1.0"));
	CHECK(!module_is_for("6.1.0-5 SMP", "6.1.0"));
	CHECK(!module_is_for("6.1 SMP", "6.1.0"));
}

TEST(module_next)
{
	static const char long_name[] = "a,xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	static const char *const wrong[] = { ",", ",a", "a/b", "../x", "a b", long_name + 2 };
	const char *at = "virtio-rng,b,C_9";
	char name[MODULE_NAME_MAX];

	CHECK(module_next(&at, name) == 1 && strcmp(name, "virtio_rng") == 0);
	CHECK(module_next(&at, name) == 1 && strcmp(name, "b") == 0);
	CHECK(module_next(&at, name) == 1 && strcmp(name, "C_9") == 0);
	CHECK(module_next(&at, name) == 0);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		at = wrong[i];
		CHECK_ERR(module_next(&at, name), EBADMSG);
	}
	at = long_name + 3;
	CHECK(module_next(&at, name) == 1);
}

static const struct {
	const char *path, *name, *suffix;
} file_cases[] = {
	{ "kernel/fs/erofs/erofs.ko", "erofs", "" },
	{ "virtio-rng.ko.xz", "virtio_rng", ".xz" },
	{ "a/b.ko.zst", "b", ".zst" },
	{ "a/b.ko.gz", "b", ".gz" },
	{ "a/b.ko.bz2", NULL, NULL },
	{ "a/b.o", NULL, NULL },
	{ "a/.ko", NULL, NULL },
	{ ".ko.xz", NULL, NULL },
	{ "a.ko/b", NULL, NULL },
	{ "a b.ko", NULL, NULL },
	{ "a.b.ko", NULL, NULL },
	{ "", NULL, NULL },
	{ "o", NULL, NULL },
	{ "/", NULL, NULL },
};

TEST(module_file_name)
{
	for (size_t i = 0; i < ARRAY_LEN(file_cases); i++) {
		const char *path = file_cases[i].path, *suffix;
		char name[MODULE_NAME_MAX];

		CHECK(module_file_name(path, strlen(path), name, &suffix) == (file_cases[i].name != NULL));
		if (file_cases[i].name != NULL) {
			CHECK_STR(name, file_cases[i].name);
			CHECK_STR(suffix, file_cases[i].suffix);
		}
	}
}

TEST(module_is_builtin)
{
	static const char list[] = "kernel/fs/fuse/fuse.ko\nkernel/drivers/char/hw_random/virtio-rng.ko\n\nkernel/x/last.ko";

	CHECK(module_is_builtin(list, "fuse"));
	CHECK(module_is_builtin(list, "virtio_rng"));
	CHECK(module_is_builtin(list, "last"));
	CHECK(!module_is_builtin(list, "use"));
	CHECK(!module_is_builtin(list, "fus"));
	CHECK(!module_is_builtin(list, ""));
	CHECK(!module_is_builtin("", "fuse"));
}
