/* inspect_git.c - tests of inspect/git: pushes of the real git, and made up ones. */
#include "inspect/git.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <zlib.h>

#include "base/err.h"
#include "base/io.h"
#include "inspect/inspect.h"
#include "test.h"

#define PUSH_PATH "/a/b.git/git-receive-pack"

/* ---- what git sends ----
 *
 * The bytes that git writes to git-receive-pack are those of the body over HTTP. */

static const char script[] =
	"set -e\n"
	"export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.example\n"
	"export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.example\n"
	"commit() { echo \"$1\" >>file; git add file; git commit -q -m \"$1\"; }\n"
	"push() { out=$1; shift; git push -q --receive-pack=\"$PWD/../tap $PWD/../$out\" "
	"../remote.git \"$@\" 2>/dev/null; }\n"
	"printf '#!/bin/sh\\ntee \"$1\" | git-receive-pack \"$2\"\\n' >tap; chmod +x tap\n"
	"export PATH=$PATH:$(git --exec-path)\n"
	"for format in sha1 sha256; do\n"
	"  rm -rf work remote.git\n"
	"  git init -q --object-format=$format --bare remote.git\n"
	"  git -C remote.git config receive.advertisePushOptions true\n"
	"  git -C remote.git config receive.denyDeletes false\n"
	/* With this one deltas name their base by its id, with the other by its place. */
	"  [ $format = sha1 ] || git -C remote.git config repack.useDeltaBaseOffset false\n"
	"  git init -q --object-format=$format work; cd work; git checkout -q -b main\n"
	"  commit one; push $format.create main\n"
	"  i=0; while [ $i -lt 40 ]; do commit \"a line of text that is long enough for deltas, "
	"number $i\"; i=$((i+1)); done; push $format.forward main\n"
	"  git checkout -q -b side HEAD~3; commit side; git checkout -q main; commit more\n"
	"  git merge -q -s ours -m merged side; push $format.merge main\n"
	"  push $format.two main:refs/heads/x side:refs/heads/y\n"
	"  git checkout -q -b other HEAD~2; commit other; push $format.force -f other:main\n"
	"  push $format.rewind -f other~2:main\n"
	"  push $format.delete :x\n"
	"  git tag -a -m t v1; push $format.options -o ci.skip v1 other:refs/heads/z\n"
	"  cd ..\n"
	"done\n";

static void
make_pushes(void)
{
	const char *dir = test_dir();
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)script, NULL };
	int status = 0;
	pid_t pid;

	if (access("/usr/bin/git", X_OK) < 0)
		test_skip("there is no git");
	CHECK(chdir(dir) == 0);
	CHECK(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

struct push_case {
	const char *name, *refs;        /* a space behind each */
	enum git_kind kind;             /* of the first */
	bool descends;                  /* the first */
};

static const struct push_case pushes[] = {
	{ "create", "refs/heads/main ", GIT_CREATE, false },
	{ "forward", "refs/heads/main ", GIT_UPDATE, true },
	{ "merge", "refs/heads/main ", GIT_UPDATE, true },
	{ "two", "refs/heads/x refs/heads/y ", GIT_CREATE, false },
	{ "force", "refs/heads/main ", GIT_UPDATE, false },
	{ "rewind", "refs/heads/main ", GIT_UPDATE, false },
	{ "delete", "refs/heads/x ", GIT_DELETE, false },
	{ "options", "refs/tags/v1 refs/heads/z ", GIT_CREATE, false },
};

static void
read_push(const char *path, size_t step, struct git_push **ret_push)
{
	OWN(freep) char *data = NULL;
	struct err err = {0};
	size_t len;

	if (read_file_at(AT_FDCWD, path, 1 << 20, &data, &len, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_OK(git_push_new(false, ret_push));
	for (size_t i = 0; i < len; i += step)
		CHECK_OK(git_push_feed(*ret_push, (unsigned char *)data + i,
		                       len - i < step ? len - i : step));
	CHECK_OK(git_push_finish(*ret_push));
}

static void
check_push(const struct push_case *want, const char *format, size_t step)
{
	OWN(git_push_freep) struct git_push *p = NULL;
	char path[64], refs[256] = "";

	snprintf(path, sizeof(path), "%s.%s", format, want->name);
	read_push(path, step, &p);
	for (size_t i = 0; i < p->n_commands; i++) {
		strncat(refs, p->commands[i].ref, 100);
		strncat(refs, " ", 2);
	}
	CHECK_STR(refs, want->refs);
	if (p->commands[0].kind != want->kind || p->commands[0].descends != want->descends)
		test_fail(__FILE__, __LINE__, "%s is of kind %d, %s", path, p->commands[0].kind,
		          p->commands[0].descends ? "forward" : "not forward");
}

TEST(git_real_pushes)
{
	make_pushes();
	for (size_t i = 0; i < ARRAY_LEN(pushes); i++) {
		check_push(&pushes[i], "sha1", 1 << 16);
		check_push(&pushes[i], "sha256", 1 << 16);
		check_push(&pushes[i], "sha1", 1);
		check_push(&pushes[i], "sha256", 7);
	}
}

/* ---- rules ---- */

static const struct {
	const char *rule, *push;        /* after "- allow: h.example", and "- deny: i.example" */
	bool allows, denies;
} rule_cases[] = {
	{ "git: {push: [refs/heads/*]}", "create", true, true },
	{ "git: {push: [refs/heads/agent/*]}", "create", false, false },
	{ "git: {push: [refs/heads/main]}", "forward", true, true },
	{ "git: {push: [refs/heads/main]}", "merge", true, true },
	{ "git: {push: [refs/heads/main]}", "force", false, true },
	{ "git: {push: [refs/heads/main]}", "rewind", false, true },
	{ "git: {push: [refs/heads/main], force: true}", "force", true, true },
	{ "git: {push: [refs/heads/main], force: true}", "rewind", true, true },
	{ "git: {push: [refs/heads/main], force: true}", "forward", true, false },
	{ "git: {push: [refs/heads/*]}", "delete", false, true },
	{ "git: {push: [refs/heads/*], delete: true}", "delete", true, true },
	{ "git: {push: [refs/heads/*], delete: true}", "forward", true, false },
	{ "git: {push: [refs/heads/x]}", "two", false, true },
	{ "git: {push: [refs/heads/x, refs/heads/y]}", "two", true, true },
	{ "git: {push: [refs/heads/z]}", "options", false, true },
	{ "git: {push: [refs/**]}", "options", false, true },
	{ "git: {push: [refs/**], options: true}", "options", true, true },
	{ "git: {push: [refs/heads/x], options: true}", "options", false, false },
	{ "git: {push: [refs/heads/*], options: true}", "create", true, false },
};

static struct policy *
load(const char *rule)
{
	struct policy *p = NULL;
	struct err err = {0};
	char text[1024];

	snprintf(text, sizeof(text), "version: 1\negress:\n  - allow: h.example\n    %s\n"
	         "  - deny: i.example\n    %s\n", rule, rule);
	if (policy_load_text("test.yaml", text, strlen(text), &p, NULL, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return p;
}

/* The bits, and how much of the body it took to know them. */
static unsigned
inspect_at(const char *path, const struct policy *policy, const char *data, size_t len,
           size_t *ret_lost)
{
	OWN(inspect_freep) struct inspect *in = NULL;
	struct inspect_request req = {
		.policy = policy, .method = { "POST", 4 }, .path = { path, strlen(path) },
		.rules = true,
	};
	struct inspect_findings f;
	size_t n = 0;

	CHECK_OK(inspect_new(&req, &in, NULL));
	while (n < len && inspect_feed(in, data + n, 1) == INSPECT_WANTS_MORE)
		n++;
	inspect_finish(in);
	inspect_result(in, &f);
	CHECK(f.n_fits == 1 && !f.unreadable);
	if (ret_lost != NULL)
		*ret_lost = n;
	return f.fits[0];
}

static unsigned
inspect_push(const struct policy *policy, const char *data, size_t len, size_t *ret_lost)
{
	return inspect_at(PUSH_PATH, policy, data, len, ret_lost);
}

TEST(git_rules)
{
	make_pushes();
	for (size_t i = 0; i < ARRAY_LEN(rule_cases); i++) {
		OWN(policy_freep) struct policy *p = load(rule_cases[i].rule);
		OWN(freep) char *data = NULL;
		unsigned want = (rule_cases[i].allows ? 1u : 0u) | (rule_cases[i].denies ? 2u : 0u), got;
		char path[64];
		size_t len, taken;

		snprintf(path, sizeof(path), "sha1.%s", rule_cases[i].push);
		CHECK_OK(read_file_at(AT_FDCWD, path, 1 << 20, &data, &len, NULL));
		got = inspect_push(p, data, len, &taken);
		if (got != want)
			test_fail(__FILE__, __LINE__, "%s of %s is %u, not %u", rule_cases[i].rule, path,
			          got, want);
		/* Where nothing hangs on it, the pack is not waited for. */
		if (strcmp(rule_cases[i].push, "create") == 0)
			CHECK(memmem(data, taken + 1, "PACK", 4) == NULL);
	}
}

/* What is said of a push to whom it is refused, and in the record. */
TEST(git_describe)
{
	static const struct {
		const char *push, *text;
	} described[] = {
		{ "create", "-rs refs/heads/main" },
		{ "forward", "-rs refs/heads/main" },
		{ "two", "-rs refs/heads/x refs/heads/y" },
		{ "force", "-rs +refs/heads/main" },
		{ "delete", "-rs :refs/heads/x" },
		{ "options", "-rso refs/tags/v1 refs/heads/z" },
	};

	make_pushes();
	for (size_t i = 0; i < ARRAY_LEN(described); i++) {
		OWN(git_push_freep) struct git_push *p = NULL;
		OWN(freep) char *data = NULL;
		char path[64], text[INSPECT_PUSHED_MAX];
		size_t len;

		snprintf(path, sizeof(path), "sha256.%s", described[i].push);
		CHECK_OK(read_file_at(AT_FDCWD, path, 1 << 20, &data, &len, NULL));
		CHECK_OK(git_push_new(false, &p));
		CHECK_OK(git_push_feed(p, (unsigned char *)data, len));
		CHECK_OK(git_push_finish(p));
		git_push_describe(p, text);
		CHECK_STR(text, described[i].text);
	}
}

TEST(git_describe_is_bounded)
{
	OWN(git_push_freep) struct git_push *p = NULL;
	char text[INSPECT_PUSHED_MAX];

	CHECK_OK(git_push_new(false, &p));
	for (size_t i = 0; i < 100; i++) {
		p->commands[i].ref = str_format("refs/heads/a-rather-long-name-%zu", i);
		p->n_commands++;
	}
	git_push_describe(p, text);
	CHECK(strlen(text) < INSPECT_PUSHED_MAX && strlen(text) > INSPECT_PUSHED_MAX - 48);
	CHECK_STR(text + strlen(text) - 4, " ...");
}

/* Secrets are looked for in the objects: the pack itself is compressed. */
TEST(git_secret_in_pack)
{
	static const char leak[] =
		"cd work; for i in 1 2 3 4 5 6 7 8 9; do echo 'some more text'; done >leak\n"
		"printf '%s%s\\n' AKIAQ3EGRT 7XZLP5WVNM >>leak; git add leak\n"
		"git -c user.name=a -c user.email=a@b.example commit -q -m leak\n"
		"git push -q --receive-pack=\"$PWD/../tap $PWD/../leak\" ../remote.git HEAD:refs/heads/l";
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)leak, NULL };
	struct inspect_request req = {
		.method = { "POST", 4 }, .path = { PUSH_PATH, strlen(PUSH_PATH) }, .secrets = true,
	};
	OWN(inspect_freep) struct inspect *in = NULL;
	OWN(freep) char *data = NULL;
	struct inspect_findings f;
	struct secrets_scan scan = { .n_tail = 0 };
	int status = 0;
	size_t len;
	pid_t pid;

	make_pushes();
	setenv("PATH", "/usr/bin:/bin:/usr/lib/git-core", 1);
	CHECK(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ) == 0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK_OK(read_file_at(AT_FDCWD, "leak", 1 << 20, &data, &len, NULL));
	CHECK(secrets_find(&scan, data, len) == NULL);
	CHECK_OK(inspect_new(&req, &in, NULL));
	if (inspect_feed(in, data, len) == INSPECT_WANTS_MORE)
		inspect_finish(in);
	inspect_result(in, &f);
	CHECK(f.secret);
	CHECK_STR(f.what, "AWS access key");
}

/* ---- made up ---- */

#define ZERO "0000000000000000000000000000000000000000"
#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"

/* Each line in its frame; "" is a flush.  A NULL ends the list. */
static size_t
put_lines(char *out, size_t size, const char *const *lines)
{
	size_t n = 0;

	for (; *lines != NULL; lines++) {
		size_t len = strlen(*lines);

		CHECK(n + len + 5 <= size);
		if (len == 0)
			n += (size_t)snprintf(out + n, size - n, "0000");
		else
			n += (size_t)snprintf(out + n, size - n, "%04zx%s", len + 4, *lines);
	}
	/* A NUL is written as "|". */
	for (char *p = memchr(out, '|', n); p != NULL; p = memchr(out, '|', n))
		*p = '\0';
	return n;
}

static const struct {
	const char *lines[12];
	int commands;                   /* or -1: these are none */
	enum git_kind kind;
} line_cases[] = {
	{ { ZERO " " ONE " refs/heads/a|report-status", "" }, 1, GIT_CREATE },
	{ { ZERO " " ONE " refs/heads/a\n", "" }, 1, GIT_CREATE },
	{ { ONE " " ZERO " refs/heads/a|", "" }, 1, GIT_DELETE },
	{ { ONE " " TWO " refs/heads/a|x", TWO " " ONE " refs/heads/b", "" }, 2, GIT_UPDATE },
	{ { "shallow " ONE, ONE " " TWO " refs/heads/a|x", "" }, 1, GIT_UPDATE },
	{ { ONE " " TWO " refs/heads/a|x push-options y", "", "an option", "" }, 1, GIT_UPDATE },
	/* Some servers take these for the word, others do not. */
	{ { ONE " " TWO " refs/heads/a|x\tpush-options", "", "o", "" }, -1, GIT_UPDATE },
	{ { ONE " " TWO " refs/heads/a|push-options=1", "", "o", "" }, -1, GIT_UPDATE },
	{ { ONE " " TWO " refs/heads/a|x|push-options", "", "o", "" }, -1, GIT_UPDATE },
	{ { "" }, 0, GIT_CREATE },
	{ { ONE " " TWO " refs/heads/a|push-options", "" }, -1, GIT_UPDATE },
	{ { ONE " " TWO " refs/heads/a" }, -1, GIT_UPDATE },
	{ { ZERO " " ZERO " refs/heads/a", "" }, -1, GIT_CREATE },
	{ { ONE " " TWO " ", "" }, -1, GIT_CREATE },
	{ { ONE " " TWO "  refs/heads/a", "" }, -1, GIT_CREATE },
	{ { ONE " " TWO " refs/heads/a b", "" }, -1, GIT_CREATE },
	{ { ONE " " TWO " refs/heads/a\tb", "" }, -1, GIT_CREATE },
	{ { ONE "1 " TWO " refs/heads/a", "" }, -1, GIT_CREATE },
	{ { ONE " " TWO ONE " refs/heads/a", "" }, -1, GIT_CREATE },
	{ { ZERO " " ONE " refs/heads/a", ONE ONE " " TWO TWO " refs/heads/b", "" }, -1, GIT_CREATE },
	{ { "hello", "" }, -1, GIT_CREATE },
	/* A signed push: what it signs is what is done. */
	{ { "push-cert|report-status\n", "certificate version 0.1\n", "pusher a\n", "nonce 1\n", "\n",
	    ONE " " ZERO " refs/heads/a\n", "-----BEGIN PGP SIGNATURE-----\n", "abc\n",
	    "-----END PGP SIGNATURE-----\n", "push-cert-end\n", "" }, 1, GIT_DELETE },
	/* However it is cut into lines. */
	{ { "push-cert|", "certificate version 0.1\n\n" ONE " 0000000000",
	    "000000000000000000000000000000 refs/he", "ads/a\n-----BEGIN SSH SIGNATURE-----\nx\n",
	    "push-cert-end\n", "" }, 1, GIT_DELETE },
	{ { "push-cert|", "certificate version 0.1\n\n", "-----BEGIN PGP SIGNATURE-----\n",
	    ONE " " ZERO " refs/heads/a\n", "push-cert-end\n", "" }, 1, GIT_DELETE },
	{ { "push-cert|", "certificate version 0.1\n", ONE " " ZERO " refs/heads/a\n",
	    "push-cert-end\n", "" }, -1, GIT_DELETE },
	{ { "push-cert|", "certificate version 0.1\n\nhello\n", "push-cert-end\n", "" }, -1,
	  GIT_DELETE },
	{ { "push-cert|", "certificate version 0.1\n\n", "" }, -1, GIT_DELETE },
};

TEST(git_lines)
{
	for (size_t i = 0; i < ARRAY_LEN(line_cases); i++) {
		OWN(git_push_freep) struct git_push *p = NULL;
		char text[2048];
		size_t n = put_lines(text, sizeof(text), line_cases[i].lines);
		int r = git_push_new(false, &p);

		for (size_t at = 0; r == 0 && at < n; at++)
			r = git_push_feed(p, (unsigned char *)text + at, 1);
		if (r == 0)
			r = git_push_finish(p);
		if (r < 0 ? line_cases[i].commands != -1 : line_cases[i].commands != (int)p->n_commands)
			test_fail(__FILE__, __LINE__, "case %zu: %d, %zu commands", i, r, p->n_commands);
		if (r == 0 && p->n_commands > 0)
			CHECK(p->commands[0].kind == line_cases[i].kind);
	}
}

TEST(git_bad_lengths)
{
	static const char *const heads[] = { "0001", "0002", "0003", "0004", "xxxx", "fff1", "-001" };

	for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
		OWN(git_push_freep) struct git_push *p = NULL;

		CHECK_OK(git_push_new(false, &p));
		CHECK_ERR(git_push_feed(p, (const unsigned char *)heads[i], 4), EBADMSG);
	}
}

/* A push of nothing, by which git asks whether it may: it fits what allows pushing. */
TEST(git_probe)
{
	OWN(policy_freep) struct policy *p = load("git: {push: [refs/heads/a]}");

	CHECK_U64(inspect_push(p, "0000", 4, NULL), 1);
	CHECK_U64(inspect_push(p, "", 0, NULL), 0);
	CHECK_U64(inspect_push(p, "what is this?", 13, NULL), 2);
}

/* However the path is spelled that a server may take for that of a push. */
TEST(git_paths)
{
	static const struct { const char *path; bool push; } cases[] = {
		{ "/o/r.git/git-receive-pack", true },
		{ "/o/r.git/git-receive-pack?x=1", true },
		{ "/o/r.git%2Fgit-receive-pack", true },
		{ "/o/r.git%2fgit-receive-pack", true },
		{ "/o/r.git/git%2Dreceive-pack", true },
		{ "/o/r.git/%67it-receive-pac%6b", true },
		{ "/o/r.git/git-upload-pack", false },
	};
	OWN(policy_freep) struct policy *p = load("git: {push: [refs/heads/a]}");
	const char *const lines[] = { ZERO " " ONE " refs/heads/b|", "", NULL };
	char text[512];
	size_t n = put_lines(text, sizeof(text), lines);

	/* What is no push cannot be read as one: then it fits what refuses. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_U64(inspect_at(cases[i].path, p, text, n, NULL), cases[i].push ? 0 : 2);
	memcpy(memmem(text, n, "heads/b", 7), "heads/a", 7);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_U64(inspect_at(cases[i].path, p, text, n, NULL), cases[i].push ? 3 : 2);
}

/* From who loads a policy to who reads bodies by it. */
TEST(git_options_sent)
{
	OWN(policy_freep) struct policy *p = load("git: {push: [refs/heads/a], options: true}");
	OWN(policy_freep) struct policy *without = load("git: {push: [refs/heads/a]}");
	OWN(policy_freep) struct policy *q = NULL;
	const char *const lines[] = { ZERO " " ONE " refs/heads/a|push-options", "", "o", "", NULL };
	struct buf b;
	char text[512];
	size_t n = put_lines(text, sizeof(text), lines);

	buf_init(&b, 1 << 16);
	policy_put(&b, p);
	CHECK_OK(policy_get(&b, &q, NULL));
	buf_free(&b);
	CHECK_U64(inspect_push(q, text, n, NULL), 3);
	CHECK_U64(inspect_push(without, text, n, NULL), 2);
}

/* The request as a whole: its head by the policy, its body by the inspector. */
TEST(git_deny_agrees)
{
	static const char *const paths[] = {
		"/o/r.git/git-receive-pack", "/o/r.git%2Fgit-receive-pack", "/o/r%2egit%2fgit-receive-pack",
		"/o/r.git/git%2Dreceive-pack",
	};
	static const char yaml[] = "version: 1\negress:\n  - deny: h.example\n"
		"    git: {push: [refs/heads/main]}\n  - allow: h.example\n";
	const char *const lines[] = { ONE " " TWO " refs/heads/main|", "", NULL };
	OWN(policy_freep) struct policy *p = NULL;
	char text[512];
	size_t n = put_lines(text, sizeof(text), lines);

	CHECK_OK(policy_load_text("test.yaml", yaml, strlen(yaml), &p, NULL, NULL));
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		unsigned char fits = (unsigned char)inspect_at(paths[i], p, text, n, NULL);
		struct http_head head = { .method = { "POST", 4 }, .host = { "h.example", 9 },
		                          .path = { paths[i], strlen(paths[i]) }, .port = 443,
		                          .scheme = HTTP_TLS, .length = n };
		struct policy_request req = { .protocol = POLICY_HTTP, .head = &head,
		                              .host = "h.example", .port = 443, .body_fits = &fits,
		                              .n_body_fits = 1 };
		struct policy_decision decision;
		struct policy_logged logged;

		policy_decide(p, &req, &decision, &logged);
		CHECK(decision.verdict == POLICY_DENY && decision.rule == 0);
	}
}

/* A broken pack shows nothing, so what is moved counts as forced. */
TEST(git_broken_pack)
{
	OWN(policy_freep) struct policy *p = load("git: {push: [refs/heads/a]}");
	const char *const lines[] = { ONE " " TWO " refs/heads/a|", "", NULL };
	char text[512];
	size_t n = put_lines(text, sizeof(text), lines);

	CHECK_U64(inspect_push(p, text, n, NULL), 2);
	memcpy(text + n, "PACK\0\0\0\2\0\0\0\1\x95", 13);
	CHECK_U64(inspect_push(p, text, n + 13, NULL), 2);
	memcpy(text + n, "PACK\0\0\0\7", 8);
	CHECK_U64(inspect_push(p, text, n + 12, NULL), 2);
}

/* ---- deltas ---- */

static const struct {
	const char *delta;
	size_t len;
	const char *want;               /* of the base "0123456789"; NULL: broken */
} delta_cases[] = {
	{ "\x0a\x03\x03" "abc", 6, "abc" },
	{ "\x0a\x04\x90\x04", 4, "0123" },
	{ "\x0a\x04\x91\x06\x04", 5, "6789" },
	{ "\x0a\x06\x91\x08\x02\x02" "xy\x91\x00\x02", 11, "89xy01" },
	{ "\x0a\x00", 2, "" },
	{ "", 0, NULL },
	{ "\x0a", 1, NULL },
	{ "\x0b\x01\x01" "a", 4, NULL },                 /* another base */
	{ "\x0a\x02\x01" "a", 4, NULL },                 /* too little */
	{ "\x0a\x01\x02" "ab", 5, NULL },                /* too much */
	{ "\x0a\x05\x05" "ab", 5, NULL },
	{ "\x0a\x01\x00", 3, NULL },
	{ "\x0a\x04\x91\x07\x04", 5, NULL },           /* past the base */
	{ "\x0a\x04\x91", 3, NULL },
	{ "\x0a\x04\xff\xff\xff\xff\xff\xff\xff\xff", 10, NULL },
	{ "\xff\xff\xff\xff\xff\xff", 6, NULL },
};

TEST(git_delta)
{
	for (size_t i = 0; i < ARRAY_LEN(delta_cases); i++) {
		OWN(freep) unsigned char *got = NULL;
		size_t len = 0;

		got = git_delta_apply((const unsigned char *)"0123456789", 10,
		                      (const unsigned char *)delta_cases[i].delta, delta_cases[i].len,
		                      &len);
		CHECK((got == NULL) == (delta_cases[i].want == NULL));
		if (got != NULL)
			CHECK(len == strlen(delta_cases[i].want) &&
			      memcmp(got, delta_cases[i].want, len) == 0);
	}
}

/* ---- commits ---- */

static unsigned char *
copy(const char *text)
{
	unsigned char *p = malloc(strlen(text) + 1);

	CHECK(p != NULL);
	memcpy(p, text, strlen(text) + 1);
	return p;
}

static int
git_test_hash_commit(const char *text, unsigned char id[GIT_ID_MAX])
{
	char all[512];
	int n = snprintf(all, sizeof(all), "commit %zu%c%s", strlen(text), '\0', text);

	return EVP_Digest(all, (size_t)n, id, NULL, EVP_sha1(), NULL) == 1 ? 0 : -EINVAL;
}

/* ---- a pack ---- */

struct pack { unsigned char data[4096]; size_t len; };

/* SIZE is below 2048; BASE_ID is for type 7, BACK, below 128, for type 6. */
static size_t
put_object(struct pack *p, unsigned type, const unsigned char *base_id, size_t back,
           const void *content, size_t size)
{
	size_t at = p->len;
	uLongf n = sizeof(p->data) - p->len - 64;

	p->data[p->len++] = (unsigned char)(128 | type << 4 | (size & 15));
	p->data[p->len++] = (unsigned char)(size >> 4);
	if (type == 6)
		p->data[p->len++] = (unsigned char)back;
	if (type == 7) {
		memcpy(p->data + p->len, base_id, 20);
		p->len += 20;
	}
	CHECK(compress(p->data + p->len, &n, content, size) == Z_OK);
	p->len += n;
	return at;
}

/* What makes TO of a base of N_BASE bytes: all of it is in the delta. */
static size_t
put_delta(unsigned char *out, size_t n_base, const char *to)
{
	size_t n = 0, len = strlen(to);

	out[n++] = (unsigned char)(128 | (n_base & 127));
	out[n++] = (unsigned char)(n_base >> 7);
	out[n++] = (unsigned char)(128 | (len & 127));
	out[n++] = (unsigned char)(len >> 7);
	for (size_t i = 0; i < len; i += 100) {
		size_t part = len - i < 100 ? len - i : 100;

		out[n++] = (unsigned char)part;
		memcpy(out + n, to + i, part);
		n += part;
	}
	return n;
}

static void
put_hex(char *out, const unsigned char *id)
{
	for (size_t i = 0; i < 20; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

/* A chain of three: whole, as a delta by place, and as a delta of that by id. */
TEST(git_pack_of_deltas)
{
	struct pack p = { "PACK\0\0\0\2\0\0\0\3", 12 };
	unsigned char old[GIT_ID_MAX], id[3][GIT_ID_MAX], delta[512];
	char text[3][256], parent[41] = ONE;
	size_t at, n;

	memset(old, 0x11, sizeof(old));
	for (unsigned i = 0; i < 3; i++) {
		snprintf(text[i], sizeof(text[i]), "tree %s\nparent %s\nauthor %u\n", TWO, parent, i);
		CHECK_OK(git_test_hash_commit(text[i], id[i]));
		put_hex(parent, id[i]);
	}
	at = put_object(&p, 1, NULL, 0, text[0], strlen(text[0]));
	n = put_delta(delta, strlen(text[0]), text[1]);
	CHECK(p.len - at < 128);
	put_object(&p, 6, NULL, p.len - at, delta, n);
	n = put_delta(delta, strlen(text[1]), text[2]);
	put_object(&p, 7, id[1], 0, delta, n);
	p.len += 20;

	for (size_t step = 1; step <= p.len; step += 50) {
		struct git_commits *c = git_commits_new(20);
		struct git_pack *pack = git_pack_new(c, 20, false);

		CHECK(c != NULL && pack != NULL);
		for (size_t i = 0; i < p.len; i += step)
			CHECK_OK(git_pack_feed(pack, p.data + i, p.len - i < step ? p.len - i : step));
		CHECK(git_pack_is_complete(pack) && !git_pack_is_past_commits(pack));
		CHECK(git_commits_descends(c, id[2], old) && git_commits_descends(c, id[2], id[0]));
		CHECK(!git_commits_descends(c, id[0], id[2]));
		git_pack_free(pack);
		git_commits_free(c);
	}
}

/* Many, each the parent of the next; enough for the tables to grow. */
TEST(git_commits_chain)
{
	struct git_commits *c = git_commits_new(20);
	unsigned char first[GIT_ID_MAX] = { 1 }, last[GIT_ID_MAX] = {0};
	char parent[41], text[256];
	size_t len;

	CHECK(c != NULL);
	snprintf(parent, sizeof(parent), "01%038d", 0);
	for (unsigned i = 0; i < 1000; i++) {
		unsigned char *content;

		snprintf(text, sizeof(text), "tree %s\nparent %s\nauthor %u", ONE, parent, i);
		content = copy(text);
		git_commits_add(c, 100 + i, content, strlen(text));
		CHECK(git_commits_at(c, 100 + i, &len) == content && len == strlen(text));
		CHECK(git_commits_at(c, 101 + i, &len) == NULL);
		CHECK_OK(git_test_hash_commit(text, last));
		for (size_t j = 0; j < 20; j++)
			snprintf(parent + 2 * j, 3, "%02x", last[j]);
		CHECK(git_commits_by_id(c, last, &len) == content);
		CHECK(git_commits_descends(c, last, first));
	}
	CHECK(!git_commits_descends(c, first, last));
	git_commits_free(c);
}
