/* vault_source.c - tests of vault/source and vault/guard. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "test.h"
#include "vault/secret.h"
#include "vault/source.h"

#define NOW UINT64_C(1800000000)

static int
run(const char *command, unsigned ms, size_t max, struct guard *g, struct err *err)
{
	guard_free(g);
	CHECK_OK(guard_alloc(g, max, err));
	return source_run(TRUST_SECRET_COMMAND, command, ms, g, err);
}

TEST(vault_source_runs)
{
	OWN(guard_free) struct guard g = {0};
	struct err err = {0};

	CHECK_OK(run("printf '%s,%s' \"a b\" c\"d 'e\"", 10000, 100, &g, &err));
	CHECK_STR(g.at, "a b,cd 'e");
	/* No shell is in between. */
	CHECK_OK(run("printf %s $HOME;id", 10000, 100, &g, &err));
	CHECK_STR(g.at, "$HOME;id");
	/* Nothing is on standard input. */
	CHECK_OK(run("cat", 10000, 100, &g, &err));
	CHECK_U64(g.len, 0);
	CHECK_ERR(run("/nonexistent/program", 10000, 100, &g, &err), ENOENT);
	CHECK_ERR(run("false", 10000, 100, &g, &err), ECHILD);
	CHECK(strstr(err.text, "'false'") != NULL && strstr(err.text, "status 1") != NULL);
	CHECK_ERR(run("sh -c 'kill -9 $$'", 10000, 100, &g, &err), ECHILD);
	CHECK(strstr(err.text, "signal 9") != NULL);
}

TEST(vault_source_is_bounded)
{
	OWN(guard_free) struct guard g = {0};
	OWN(freep) char *script = NULL;
	struct err err = {0};
	char path[512], pid[32] = "";
	FILE *f;

	CHECK_OK(run("printf 1234567890", 10000, 10, &g, &err));
	CHECK_ERR(run("printf 12345678901", 10000, 10, &g, &err), EFBIG);
	CHECK_ERR(run("yes", 10000, 1000, &g, &err), EFBIG);
	CHECK_ERR(run("sleep 1000", 50, 100, &g, &err), ETIMEDOUT);
	/* What it started ends with it, though it keeps the output open. */
	snprintf(path, sizeof(path), "%s/pid", test_dir());
	script = str_format("sh -c 'sleep 1000 & echo $! >%s; wait'", path);
	CHECK(script != NULL);
	CHECK_ERR(run(script, 500, 100, &g, &err), ETIMEDOUT);
	f = fopen(path, "r");
	CHECK(f != NULL && fgets(pid, sizeof(pid), f) != NULL);
	fclose(f);
	for (int i = 0; i < 2000 && kill(atoi(pid), 0) == 0; i++) {
		char stat[64];
		FILE *s;

		/* A zombie, where nobody reaps, is dead enough. */
		snprintf(stat, sizeof(stat), "/proc/%d/stat", atoi(pid));
		s = fopen(stat, "r");
		if (s == NULL || fscanf(s, "%*d %*s %c", stat) != 1 || stat[0] == 'Z') {
			if (s != NULL)
				fclose(s);
			return;
		}
		fclose(s);
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
	CHECK(kill(atoi(pid), 0) < 0);
}

TEST(vault_source_fetches)
{
	OWN(guard_free) struct guard g = {0};
	struct err err = {0};
	char path[512];

	setenv("VAULT_TEST", "from-env", 1);
	CHECK_OK(source_fetch("env:VAULT_TEST", &g, &err));
	CHECK_STR(g.at, "from-env");
	guard_free(&g);
	CHECK_ERR(source_fetch("env:VAULT_TEST_NOT", &g, &err), ENOENT);
	snprintf(path, sizeof(path), "file:%s/value", test_dir());
	CHECK_OK(create_file_at(AT_FDCWD, path + 5, 0600, "from-file\n", &err));
	CHECK_OK(source_fetch(path, &g, &err));
	CHECK_STR(g.at, "from-file");
	guard_free(&g);
	CHECK(chmod(path + 5, 0620) == 0);
	CHECK_ERR(source_fetch(path, &g, &err), EPERM);
	CHECK_ERR(source_fetch("file:/dev/zero", &g, &err), EINVAL);
	CHECK_ERR(source_fetch("file:value", &g, &err), EINVAL);
	CHECK_OK(source_fetch("cmd:echo from-cmd", &g, &err));
	CHECK_STR(g.at, "from-cmd");
	guard_free(&g);
	CHECK_ERR(source_fetch("cmd:true", &g, &err), ENODATA);
	CHECK_ERR(source_fetch("cmd:", &g, &err), EINVAL);
	CHECK_ERR(source_fetch("cmd:'x", &g, &err), EINVAL);
	CHECK_ERR(source_fetch("op://x", &g, &err), EINVAL);
}

static int
fields(const char *definition, const char *text, struct secret_values *v, struct err *err)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(freep) char *file = str_format("{version: 1, secrets: {k: {hosts: a.x, %s}}}", definition);
	struct guard g;
	int r;

	secret_values_free(v);
	CHECK_OK(secret_load_text("s", file, strlen(file), &list, err));
	CHECK_OK(guard_copy(&g, text, strlen(text), err));
	r = source_fields(list.at[0], &g, NOW, v, err);
	guard_free(&g);
	return r;
}

#define AWS "like: aws, from: 'cmd:x'"

TEST(vault_source_takes_fields)
{
	OWN(secret_values_free) struct secret_values v = {0};
	struct err err = {0};

	CHECK_ERR(fields("scheme: swap", "one\ntwo", &v, &err), EINVAL);
	CHECK_OK(fields("scheme: mtls", "one\ntwo", &v, &err));
	CHECK_STR(v.field[SECRET_SECRET].at, "one\ntwo");
	CHECK_U64(v.expires, 0);
	CHECK_OK(fields(AWS, "AKIAX\nthe-secret\r\nthe-token", &v, &err));
	CHECK_STR(v.field[SECRET_ID].at, "AKIAX");
	CHECK_STR(v.field[SECRET_SECRET].at, "the-secret");
	CHECK_STR(v.field[SECRET_TOKEN].at, "the-token");
	CHECK_OK(fields(AWS, "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\"}", &v, &err));
	CHECK_STR(v.field[SECRET_ID].at, "A");
	CHECK_STR(v.field[SECRET_SECRET].at, "S");
	CHECK_U64(v.field[SECRET_TOKEN].len, 0);
	CHECK_OK(fields(AWS ", expires: /Expiration", "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": "
	                "\"S\", \"Expiration\": \"2030-01-01T00:00:00Z\"}", &v, &err));
	CHECK_U64(v.expires, 1893456000);
	CHECK_OK(fields(AWS ", expires: /E", "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"S\", \"E\": 1893456000123}", &v,
	                &err));
	CHECK_U64(v.expires, 1893456000);
	CHECK_OK(fields("from: 'cmd:x', members: {secret: /a/0/b~1c}, expires: /in",
	                "{\"a\": [{\"b/c\": \"deep\"}], \"in\": 60}", &v, &err));
	CHECK_STR(v.field[SECRET_SECRET].at, "deep");
	CHECK_U64(v.expires, NOW + 60);
	/* An exchange's key has an id; what signs webhooks has none. */
	CHECK_OK(fields("scheme: hmac, with: {template: binance}", "one\ntwo", &v, &err));
	CHECK_STR(v.field[SECRET_ID].at, "one");
	CHECK_OK(fields("scheme: hmac, with: {message: '{id}', at: 'header:x', id: 'header:y'}", "one\ntwo",
	                &v, &err));
	CHECK_STR(v.field[SECRET_SECRET].at, "two");
	CHECK_OK(fields("scheme: hmac, with: {template: github}", "one\ntwo", &v, &err));
	CHECK_STR(v.field[SECRET_SECRET].at, "one\ntwo");
	CHECK_OK(fields("from: 'cmd:x', expires: 1h", "x", &v, &err));
	CHECK_U64(v.expires, NOW + 3600);
}

/* No message has a value in it. */
static const struct { const char *definition, *text, *says; } bad_fields[] = {
	{ AWS, "hunter2", "needs an id" },
	{ AWS, "a\nhunter2\nc\nd", "a line each" },
	{ AWS, "{\"SecretAccessKey\": \"hunter2\"}", "needs an id" },
	{ AWS, "{\"AccessKeyId\": \"hunter2\"}", "no text under /SecretAccessKey" },
	{ AWS, "{hunter2", "is not JSON" },
	{ AWS, "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": [\"hunter2\"]}", "no text under" },
	{ AWS ", expires: /E", "{\"AccessKeyId\": \"A\", \"SecretAccessKey\": \"hunter2\"}",
	  "does not say under /E" },
	{ AWS ", expires: /E", "hunter2\nhunter2", "is not JSON" },
	{ "scheme: swap", "", "is empty" },
	{ "scheme: hmac, with: {template: binance}", "hunter2", "needs an id" },
};

TEST(vault_source_refuses_fields)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_fields); i++) {
		OWN(secret_values_free) struct secret_values v = {0};
		struct err err = {0};

		CHECK(fields(bad_fields[i].definition, bad_fields[i].text, &v, &err) < 0);
		if (strstr(err.text, bad_fields[i].says) == NULL || strstr(err.text, "hunter2") != NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", bad_fields[i].text, err.text);
	}
}

TEST(vault_source_times)
{
	CHECK_U64(source_time("2026-11-15T10:00:00Z"), 1794736800);
	CHECK_U64(source_time("2026-11-15T10:00:00.123Z"), 1794736800);
	CHECK_U64(source_time("2026-11-15T12:00:00+02:00"), 1794736800);
	CHECK_U64(source_time("2026-11-15T05:30:00-04:30"), 1794736800);
	CHECK_U64(source_time("2026-11-15"), 0);
	CHECK_U64(source_time("2026-11-15T10:00:00"), 0);
	CHECK_U64(source_time("soon"), 0);
	CHECK_U64(source_due(1000, 1100), 1090);
	CHECK_U64(source_due(1000, 1000 + 7200), 1000 + 7200 - 300);
	CHECK_U64(source_due(1000, 500), 500);
}

/* What /proc says of the page that AT is in. */
static bool
flag_of(const void *at, const char *flag)
{
	OWN(freep) char *maps = NULL;
	struct err err = {0};
	char *line, *rest, *flags = NULL;
	unsigned long long from, to;
	bool inside = false;

	CHECK_OK(read_file_at(AT_FDCWD, "/proc/self/smaps", 1 << 22, &maps, NULL, &err));
	for (line = strtok_r(maps, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "%llx-%llx ", &from, &to) == 2)
			inside = (uintptr_t)at >= from && (uintptr_t)at < to;
		if (inside && strncmp(line, "VmFlags:", 8) == 0)
			flags = line;
	}
	CHECK(flags != NULL);
	return strstr(flags, flag) != NULL;
}

TEST(vault_guard_guards)
{
	OWN(guard_free) struct guard g = {0};
	struct err err = {0};
	int status, ends[2];
	pid_t pid;

	CHECK_OK(guard_copy(&g, "hunter2", 7, &err));
	CHECK(flag_of(g.at, " dd") && flag_of(g.at, " wf"));
#ifndef CLOISTER_SANITIZED      /* the sanitizer lets nobody lock memory */
	CHECK(flag_of(g.at, " lo"));
#endif
	pid = fork();
	if (pid == 0)
		_exit(g.at[0] == '\0' ? 0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	guard_free(&g);
	CHECK(g.at == NULL && g.len == 0);
	/* One byte too many is told from just enough. */
	CHECK(pipe(ends) == 0 && write(ends[1], "12345678", 8) == 8);
	close(ends[1]);
	CHECK_OK(guard_alloc(&g, 7, &err));
	CHECK_ERR(guard_read(&g, ends[0], &err), EFBIG);
	close(ends[0]);
}
