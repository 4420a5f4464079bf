/* witness_watch.c - tests of which acts the rules of `watch` fit. */
#include <arpa/inet.h>
#include <errno.h>

#include "base/call.h"
#include "base/own.h"
#include "policy/policy.h"
#include "policy/policy_behaviour.h"
#include "test.h"
#include "witness/watch.h"

static struct witness_watch *
watch_of(const char *rule)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX);
	struct witness_watch *w = NULL;
	char text[512];

	snprintf(text, sizeof(text), "version: 1\nwatch: [%s]\n", rule);
	CHECK_OK(policy_load_text("t.yaml", text, strlen(text), &p, NULL, NULL));
	policy_put_matchers(&b, p);
	CHECK_OK(witness_watch_new(&b, "/home/agent", &w, NULL));
	CHECK_U64(witness_watch_key(w, 0), policy_behaviour_at(p, 0)->key);
	return w;
}

static struct act_text
text(const char *t)
{
	return (struct act_text){ .at = t, .len = t != NULL ? strlen(t) : 0 };
}

static const struct {
	const char *rule;
	enum act_file file;
	const char *path, *to;
	int error;
	bool fits;
} files[] = {
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, "/home/agent/.ssh/config", NULL, 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_CREATE, "/home/agent/.ssh", NULL, 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, "/home/agent/.sshx", NULL, 0, false },
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, "/home/agent//x/../.ssh/./a", NULL, 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, "/home/agent/.ssh/../x", NULL, 0, false },
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, "/../../home/agent/.ssh/x", NULL, 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_READ, "/home/agent/.ssh/config", NULL, 0, false },
	{ "{write: ~/.ssh, then: freeze}", ACT_RENAME, "/tmp/x", "/home/agent/.ssh/config", 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_RENAME, "/home/agent/.ssh", "/tmp/x", 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_LINK, "/home/agent/.ssh/config", "/tmp/x", 0, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_REMOVE, "/home/agent/.ssh/config", NULL, ENOENT, false },
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, "/home/agent/.ssh/config", NULL, EACCES, true },
	{ "{write: ~/.ssh, then: freeze}", ACT_WRITE, ".ssh/config", NULL, 0, false },
	/* A folder above it gets another name. */
	{ "{write: ~/.ssh/config, then: freeze}", ACT_RENAME, "/home/agent/.ssh", "/tmp/x", 0, true },
	{ "{write: ~/.ssh/config, then: freeze}", ACT_RENAME, "/tmp/x", "/home/agent", 0, true },
	{ "{write: ~/.ssh/config, then: freeze}", ACT_RENAME, "/home/agent/.sshx", "/home/agent/x", 0, false },
	{ "{write: ~/.ssh/config, then: freeze}", ACT_REMOVE, "/home/agent/.ssh", NULL, 0, false },
	{ "{write: .git/hooks, then: freeze}", ACT_RENAME, "/w/.git", "/w/x", 0, true },
	{ "{write: .git/hooks, then: freeze}", ACT_RENAME, "/w/a", "/w/x", 0, false },
	{ "{write: '/w/**/x', then: freeze}", ACT_RENAME, "/w/a", "/w/b", 0, false },
	{ "{write: '/w/*/x/y', then: freeze}", ACT_RENAME, "/w/a", "/w/b", 0, true },
	{ "{write: .git/hooks, then: freeze}", ACT_CREATE, "/w/a/.git/hooks/pre-commit", NULL, 0, true },
	{ "{write: .git/hooks, then: freeze}", ACT_CREATE, "/.git/hooks", NULL, 0, true },
	{ "{write: .git/hooks, then: freeze}", ACT_CREATE, "/w/x.git/hooks/a", NULL, 0, false },
	{ "{write: '*.pem', then: freeze}", ACT_CREATE, "/w/x.pem", NULL, 0, true },
	{ "{write: '/w/*/x', then: freeze}", ACT_CREATE, "/w/a/b/x", NULL, 0, false },
	{ "{write: '/w/**/x', then: freeze}", ACT_CREATE, "/w/a/b/x", NULL, 0, true },
	{ "{read: /etc/shadow, then: freeze}", ACT_READ, "/etc/shadow", NULL, 0, true },
	{ "{read: /etc/shadow, then: freeze}", ACT_READ, "/etc/shadow-", NULL, 0, false },
};

TEST(witness_watch_files)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		OWN(witness_watch_freep) struct witness_watch *w = watch_of(files[i].rule);
		struct act act = { .kind = ACT_FILE, .file = files[i].file, .error = files[i].error };

		act.path = text(files[i].path);
		act.to = text(files[i].to);
		if ((witness_watch_next(w, &act, 0) == 0) != files[i].fits)
			CHECK_STR(files[i].path, files[i].rule);
	}
}

static const struct {
	const char *rule, *path, *script;
	bool memory, writable, fits;
} programs[] = {
	{ "{exec: curl, then: notify}", "/usr/bin/curl", NULL, false, false, true },
	{ "{exec: curl, then: notify}", "/usr/bin/curlx", NULL, false, false, false },
	{ "{exec: /usr/bin/curl, then: notify}", "/bin/curl", NULL, false, false, false },
	{ "{exec: setup.sh, then: notify}", "/bin/sh", "/w/setup.sh", false, false, true },
	{ "{exec: downloaded, then: notify}", "/w/a.out", NULL, false, true, true },
	{ "{exec: downloaded, then: notify}", "/memfd:x", NULL, true, false, true },
	{ "{exec: downloaded, then: notify}", "/usr/bin/x", NULL, false, false, false },
	{ "{exec: memory, then: notify}", "/w/a.out", NULL, false, true, false },
	{ "{exec: memory, then: notify}", "/memfd:x", NULL, true, false, true },
};

TEST(witness_watch_programs)
{
	for (size_t i = 0; i < ARRAY_LEN(programs); i++) {
		OWN(witness_watch_freep) struct witness_watch *w = watch_of(programs[i].rule);
		struct act act = { .kind = ACT_EXEC, .from_memory = programs[i].memory,
		                   .from_writable = programs[i].writable };

		act.path = text(programs[i].path);
		act.script = text(programs[i].script);
		if ((witness_watch_next(w, &act, 0) == 0) != programs[i].fits)
			CHECK_STR(programs[i].path, programs[i].rule);
	}
}

static const struct {
	enum act_kind kind;
	const char *call;               /* of ACT_REFUSED */
	int error;
	bool unknown, fits;
} tries[] = {
	{ ACT_EXEC, NULL, EACCES, false, true },     { ACT_EXEC, NULL, EPERM, true, true },
	{ ACT_EXEC, NULL, 0, false, false },         { ACT_EXEC, NULL, 0, true, false },
	{ ACT_EXEC, NULL, ENOENT, false, false },    { ACT_REFUSED, "execve", EACCES, false, true },
	{ ACT_REFUSED, "execveat", EPERM, false, true }, { ACT_REFUSED, "ptrace", EPERM, false, false },
};

TEST(witness_watch_refused_programs)
{
	OWN(witness_watch_freep) struct witness_watch *w = watch_of("{exec: refused, then: notify}");

	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		struct act act = { .kind = tries[i].kind, .error = tries[i].error, .unknown = tries[i].unknown };

		act.path = text("/usr/bin/x");
		if (tries[i].call != NULL)
			act.nr = (uint32_t)call_number(CALL_ARCH_HERE, tries[i].call);
		CHECK_U64(witness_watch_next(w, &act, 0) == 0, tries[i].fits);
	}
}

static bool
connects(const char *rule, const char *address, uint16_t port)
{
	OWN(witness_watch_freep) struct witness_watch *w = watch_of(rule);
	struct act act = { .kind = ACT_NET, .net = ACT_CONNECT, .port = port };

	act.family = address[0] == '/' ? AF_UNIX : strchr(address, ':') != NULL ? AF_INET6 : AF_INET;
	if (act.family == AF_UNIX)
		act.path = text(address);
	else
		CHECK(inet_pton(act.family, address, act.address) == 1);
	return witness_watch_next(w, &act, 0) == 0;
}

TEST(witness_watch_connects)
{
	CHECK(connects("{connect: 10.0.0.0/8, then: notify}", "10.1.2.3", 80));
	CHECK(!connects("{connect: 10.0.0.0/8, then: notify}", "11.1.2.3", 80));
	CHECK(connects("{connect: '10.0.0.0/8:22', then: notify}", "10.1.2.3", 22));
	CHECK(!connects("{connect: '10.0.0.0/8:22', then: notify}", "10.1.2.3", 23));
	CHECK(connects("{connect: '*:25', then: notify}", "2001:db8::1", 25));
	CHECK(connects("{connect: 10.0.0.0/8, then: notify}", "::ffff:10.1.2.3", 80));
	CHECK(connects("{connect: /run/docker.sock, then: notify}", "/run/docker.sock", 0));
	CHECK(!connects("{connect: /run/docker.sock, then: notify}", "/run/x.sock", 0));
}

/* What may be about anything fits every rule of its kind, whatever it failed with. */
TEST(witness_watch_unknown)
{
	static const struct { const char *rule; struct act act; bool fits; } cases[] = {
		{ "{write: /x, then: notify}", { .kind = ACT_FILE, .file = ACT_WRITE, .error = EFAULT }, true },
		{ "{write: /x, then: notify}", { .kind = ACT_FILE, .file = ACT_READ }, false },
		{ "{read: /x, then: notify}", { .kind = ACT_FILE, .file = ACT_READ }, true },
		{ "{exec: curl, then: notify}", { .kind = ACT_EXEC, .error = ENOENT }, true },
		{ "{exec: memory, then: notify}", { .kind = ACT_EXEC }, true },
		{ "{connect: 10.0.0.1, then: notify}", { .kind = ACT_NET, .net = ACT_CONNECT }, true },
		{ "{connect: 10.0.0.1, then: notify}", { .kind = ACT_NET, .net = ACT_BIND }, false },
		{ "{refused: '*', then: notify}", { .kind = ACT_FILE, .file = ACT_WRITE }, false },
		{ "{refused: ptrace, then: notify}", { .kind = ACT_REFUSED, .nr = ACT_NR_UNKNOWN }, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(witness_watch_freep) struct witness_watch *w = watch_of(cases[i].rule);
		struct act act = cases[i].act;

		act.path = text(".");
		CHECK(witness_watch_next(w, &act, 0) == -1);
		act.unknown = true;
		CHECK((witness_watch_next(w, &act, 0) == 0) == cases[i].fits);
	}
}

TEST(witness_watch_refused)
{
	OWN(witness_watch_freep) struct witness_watch *w = watch_of("{refused: [ptrace, 'mount*'], then: notify}");
	struct act act = { .kind = ACT_REFUSED, .error = EPERM, .nr = (uint32_t)call_number(CALL_ARCH_HERE, "mount_setattr") };
	char what[WATCH_WHAT_MAX];

	CHECK(witness_watch_next(w, &act, 0) == 0);
	CHECK(witness_watch_next(w, &act, 1) == -1);
	witness_watch_what(&act, what);
	CHECK_STR(what, "refused mount_setattr");
	act.nr = (uint32_t)call_number(CALL_ARCH_HERE, "bpf");
	CHECK(witness_watch_next(w, &act, 0) == -1);
	act.nr = UINT32_MAX;
	CHECK(witness_watch_next(w, &act, 0) == -1);
}

/* A flood is counted, unless the rule stops the cell. */
TEST(witness_watch_flood)
{
	OWN(witness_watch_freep) struct witness_watch *w = watch_of("{write: /x, then: notify}, {write: /x, then: freeze}");
	uint32_t more = 0;

	for (unsigned i = 0; i < WATCH_EACH; i++)
		CHECK(witness_watch_fires(w, 0, 5, &more) && more == 0);
	CHECK(!witness_watch_fires(w, 0, 6, &more));
	CHECK(!witness_watch_fires(w, 0, 7, &more));
	CHECK(witness_watch_fires(w, 0, 1000000005, &more));
	CHECK_U64(more, 2);
	CHECK(witness_watch_fires(w, 0, 1000000006, &more));
	CHECK_U64(more, 0);
	for (unsigned i = 0; i < 10 * WATCH_EACH; i++)
		CHECK(witness_watch_fires(w, 1, 5, &more));
}

/* Any bytes: a path of many parts, of zeroes, and one that is cut. */
TEST(witness_watch_hostile)
{
	OWN(witness_watch_freep) struct witness_watch *w = watch_of("{write: '/**/a/**/b/**/c', then: notify}");
	char path[ACT_PATH_MAX], what[WATCH_WHAT_MAX];
	struct act act = { .kind = ACT_FILE, .path = { .at = path, .len = sizeof(path), .cut = true } };

	for (size_t i = 0; i < sizeof(path); i += 2) {
		path[i] = '/';
		path[i + 1] = "ab"[i / 2 % 2];
	}
	CHECK(witness_watch_next(w, &act, 0) == -1);
	path[sizeof(path) - 1] = 'c';
	CHECK(witness_watch_next(w, &act, 0) == 0);
	witness_watch_what(&act, what);
	memset(path, 0, sizeof(path));
	CHECK(witness_watch_next(w, &act, 0) == -1);
	witness_watch_what(&act, what);
	act.path = (struct act_text){0};
	CHECK(witness_watch_next(w, &act, 0) == -1);
}
