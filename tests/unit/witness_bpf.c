/* witness_bpf.c - tests of the samples that the kernel's programs write. */
#include "witness/bpf/bpf.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "test.h"
#include "witness/calls.h"

/* ---- samples ---- */

static struct {
	char bytes[sizeof(struct sample) + 65536];
	size_t len;
} made;
static struct bpf_texts texts;

static struct sample *
make(unsigned kind)
{
	struct sample s = { .kind = (__u8)kind, .time = 5, .pid = 2, .parent = 1, .host_pid = 77 };

	memcpy(made.bytes, &s, sizeof(s));
	made.len = sizeof(s);
	return (struct sample *)(void *)made.bytes;
}

static void
add(unsigned what, unsigned flags, const char *bytes, size_t len)
{
	struct sample_text head = { (__u8)what, (__u8)flags, (__u16)len };

	memcpy(made.bytes + made.len, &head, sizeof(head));
	memcpy(made.bytes + made.len + sizeof(head), bytes, len);
	made.len += sizeof(head) + len;
}

static void
check_text(const struct act_text *text, const char *want, bool cut)
{
	char got[ACT_PATH_MAX + 1];

	CHECK(text->at != NULL && text->len <= ACT_PATH_MAX);
	memcpy(got, text->at, text->len);
	got[text->len] = '\0';
	CHECK_STR(got, want);
	CHECK(text->cut == cut);
}

#define BYTES(literal) literal, sizeof(literal) - 1

/* ---- paths ---- */

TEST(bpf_paths)
{
	static const struct {
		unsigned flags;
		const char *bytes;
		size_t len;
		const char *want;
		bool cut;
	} cases[] = {
		{ 0, BYTES(""), "/", false },
		{ 0, BYTES("passwd\0etc\0"), "/etc/passwd", false },
		{ 0, BYTES("a b\n\0x\0"), "/x/a b\n", false },
		{ SAMPLE_OUTSIDE, BYTES("memfd:x\0"), "memfd:x", false },
		{ SAMPLE_CUT, BYTES("c\0b\0"), "b/c", true },
		/* Not as the programs write it. */
		{ 0, BYTES("no end"), "/no end", false },
		{ 0, BYTES("\0\0"), "/", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct act act;

		make(SAMPLE_FILE)->act = SAMPLE_CREATE;
		add(SAMPLE_PATH, cases[i].flags, cases[i].bytes, cases[i].len);
		CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
		CHECK(act.kind == ACT_FILE && act.file == ACT_CREATE && !act.asked && act.host_pid == 77);
		check_text(&act.path, cases[i].want, cases[i].cut);
	}
}

TEST(bpf_names)
{
	static const struct {
		const char *dir;        /* NULL: none */
		size_t dir_len;
		const char *name, *want;
	} cases[] = {
		{ BYTES("b\0a\0"), "c", "/a/b/c" },
		{ BYTES("b\0a\0"), "./c//d/", "/a/b/c/d" },
		{ BYTES("b\0a\0"), "../../../x", "/x" },
		{ BYTES("b\0a\0"), "..", "/a" },
		{ BYTES("b\0a\0"), "", "/a/b" },
		{ BYTES("b\0a\0"), "/etc/../tmp/x", "/tmp/x" },
		{ BYTES(""), "x", "/x" },
		{ NULL, 0, "x/../y", "x/../y" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct act act;

		*make(SAMPLE_FILE) = (struct sample){ .kind = SAMPLE_FILE, .act = SAMPLE_RENAME, .flags = SAMPLE_ASKED };
		add(SAMPLE_NAME, 0, cases[i].name, strlen(cases[i].name));
		if (cases[i].dir != NULL)
			add(SAMPLE_DIR, 0, cases[i].dir, cases[i].dir_len);
		add(SAMPLE_NAME_TO, 0, BYTES("/to"));
		CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
		CHECK(act.asked && act.file == ACT_RENAME);
		check_text(&act.path, cases[i].want, false);
		check_text(&act.to, "/to", false);
	}
}

TEST(bpf_long_names)
{
	char name[SAMPLE_PATH_MAX];
	struct act act;

	memset(name, 'x', sizeof(name));
	make(SAMPLE_FILE)->act = SAMPLE_REMOVE;
	add(SAMPLE_DIR, 0, BYTES("b\0a\0"));
	add(SAMPLE_NAME, 0, name, sizeof(name));
	CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
	check_text(&act.path, "/a/b", true);
}

/* A thread may put another file in the place of one that was just opened. */
TEST(bpf_opened_and_asked)
{
	static const struct {
		const char *name;
		bool differs;
	} cases[] = { { "./file", false }, { "/other/file", false }, { "link", true }, { "", true } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sample *s = make(SAMPLE_FILE);
		struct act act;

		s->act = SAMPLE_WRITE;
		s->flags = SAMPLE_ASKED;
		add(SAMPLE_PATH, 0, BYTES("file\0tmp\0"));
		add(SAMPLE_NAME, 0, cases[i].name, strlen(cases[i].name));
		add(SAMPLE_DIR, 0, BYTES("tmp\0"));
		CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
		check_text(&act.path, "/tmp/file", false);
		CHECK(!act.asked && (texts.other.at != NULL) == cases[i].differs);
	}
	check_text(&texts.other, "/tmp", false);
}

/* ---- kinds ---- */

TEST(bpf_exec)
{
	struct sample *s = make(SAMPLE_EXEC);
	struct act act;

	s->nr = 2;
	s->flags = SAMPLE_WRITABLE | SAMPLE_UNLINKED;
	s->exec.size = 9;
	s->exec.modified = 10;
	add(SAMPLE_PATH, 0, BYTES("sh\0bin\0"));
	add(SAMPLE_CWD, 0, BYTES("w\0"));
	add(SAMPLE_SCRIPT, 0, BYTES("./run"));
	add(SAMPLE_ARGV, SAMPLE_CUT, BYTES("sh\0./run\0"));
	CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
	check_text(&act.path, "/bin/sh", false);
	check_text(&act.cwd, "/w", false);
	check_text(&act.script, "/w/run", false);
	CHECK(act.argv.len == 9 && act.argv.cut && act.n_argv == 2 && act.from_writable && !act.from_memory);
	CHECK(act.program.size == 9 && act.program.modified_ns == 10);
}

TEST(bpf_sockets)
{
	struct sample *s = make(SAMPLE_NET);
	struct act act;

	s->act = SAMPLE_CONNECT;
	s->net.family = AF_UNIX;
	add(SAMPLE_NAME, 0, BYTES("/run/x\0behind it"));
	CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
	check_text(&act.path, "/run/x", false);
	s = make(SAMPLE_NET);
	s->net.family = AF_UNIX;
	add(SAMPLE_NAME, 0, BYTES("\0a\0b"));
	CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
	CHECK(act.path.len == 4 && act.path.at[0] == '\0');
}

TEST(bpf_counts)
{
	struct sample_pair pairs[] = { { 0, 7 }, { 39, 1000 } };
	struct sample *s = make(SAMPLE_COUNTS);
	struct act act;

	s->since = 12;
	add(SAMPLE_PAIRS, 0, (const char *)pairs, sizeof(pairs));
	CHECK_OK(bpf_decode(made.bytes, made.len, &texts, &act));
	CHECK(act.n_counts == 2 && act.counts[1].nr == 39 && act.counts[1].n == 1000 && act.since_ns == 12);
}

TEST(bpf_spoilt_samples)
{
	struct act act = { .pid = 4 };

	make(SAMPLE_FILE);
	CHECK_ERR(bpf_decode(made.bytes, made.len - 1, &texts, &act), EBADMSG);
	make(7);
	CHECK_ERR(bpf_decode(made.bytes, made.len, &texts, &act), EBADMSG);
	make(SAMPLE_FILE)->act = ACT_FILES;
	CHECK_ERR(bpf_decode(made.bytes, made.len, &texts, &act), EBADMSG);
	make(SAMPLE_NET)->act = ACT_NETS;
	CHECK_ERR(bpf_decode(made.bytes, made.len, &texts, &act), EBADMSG);
	make(SAMPLE_REFUSED)->by = 3;
	CHECK_ERR(bpf_decode(made.bytes, made.len, &texts, &act), EBADMSG);
	make(SAMPLE_FILE);
	add(SAMPLE_PATH, 0, BYTES("x"));
	CHECK_ERR(bpf_decode(made.bytes, made.len - 1, &texts, &act), EBADMSG);
	make(SAMPLE_FILE);
	add(SAMPLE_WHATS, 0, BYTES("x"));
	CHECK_ERR(bpf_decode(made.bytes, made.len, &texts, &act), EBADMSG);
	make(SAMPLE_COUNTS);
	add(SAMPLE_PAIRS, 0, BYTES("1234567"));
	CHECK_ERR(bpf_decode(made.bytes, made.len, &texts, &act), EBADMSG);
	CHECK(act.pid == 4);
}

/* ---- calls ---- */

TEST(bpf_setup_knows_calls)
{
	struct sample_setup setup;

	bpf_setup(&setup);
	CHECK(setup.calls[SYS_openat].way == SAMPLE_WAY_OPEN && setup.calls[SYS_openat].path == 2);
	CHECK(setup.calls[SYS_renameat2].to == 4 && setup.calls[SYS_read].way == SAMPLE_WAY_NONE);
	CHECK(setup.sigreturn == SYS_rt_sigreturn && 1u << setup.page_shift == (unsigned)sysconf(_SC_PAGESIZE));
}

/* A call's first text is where calls_args() shows it. */
TEST(bpf_setup_texts_are_the_first_ones)
{
	struct sample_setup setup;
	char args[ACT_ARGS_MAX];

	bpf_setup(&setup);
	for (unsigned nr = 0; nr < SAMPLE_CALLS; nr++) {
		struct act act = { .kind = ACT_REFUSED, .nr = nr, .args = { 8, 8, 8, 8, 8, 8 }, .text = { "text", 4, false } };
		unsigned commas = 0;

		if (setup.calls[nr].path == 0 || calls_args(&act, args) == 0)
			continue;
		for (const char *at = args, *text = strstr(args, "text"); text != NULL && at < text; at++)
			commas += *at == ',';
		if (strstr(args, "text") == NULL || commas + 1 != setup.calls[nr].path)
			test_fail(__FILE__, __LINE__, "call %u: %s, and not argument %u", nr, args, setup.calls[nr].path);
	}
}
