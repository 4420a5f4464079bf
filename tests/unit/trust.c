#include "trust/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "test.h"

static void
use_own_folders(void)
{
	static const char *const names[] = { "RUNTIME", "STATE", "DATA" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		OWN(freep) char *name = str_format("CLOISTER_%s_DIR", names[i]);
		OWN(freep) char *path = str_format("%s/own/%s", test_dir(), names[i]);

		setenv(name, path, 1);
	}
	CHECK_OK(chdir(test_dir()));
}

static void
make_file(const char *path, const char *text, mode_t mode)
{
	CHECK_OK(create_file_at(AT_FDCWD, path, mode, text, NULL));
	CHECK_OK(chmod(path, mode));
}

static char *
here(const char *name)
{
	return str_format("%s/%s", test_dir(), name);
}

/* Marked, and no cell runs any more. */
static void
mark(const char *path)
{
	OWN(closep) int held = trust_mark(&path, 1, NULL);

	CHECK(held >= 0);
}

static bool
refused(const char *path)
{
	return trust_path(TRUST_POLICY, path, NULL) == -EPERM;
}

TEST(trust_marks_are_remembered)
{
	OWN(freep) char *list = here("own/STATE/" TRUST_MARKS);
	struct stat first, again;

	use_own_folders();
	CHECK(!trust_is_marked("/a/b/cloister.yaml"));
	mark("/a/b");
	CHECK(trust_is_marked("/a/b/cloister.yaml") && trust_is_marked("/a/b/c/d") && trust_is_marked("/a/b"));
	CHECK(!trust_is_marked("/a/cloister.yaml") && !trust_is_marked("/a/bc/x"));
	CHECK_OK(stat(list, &first));
	mark("/a/b");
	CHECK(stat(list, &again) == 0 && again.st_size == first.st_size);
	/* One that has grown too large says nothing any more. */
	CHECK(truncate(list, TRUST_MARKS_MAX + 1) == 0);
	CHECK(trust_is_marked("/z"));
	CHECK_OK(trust_clear("/", NULL));
	CHECK(!trust_is_marked("/z"));
	mark("/");
	CHECK(trust_is_marked("/z") && refused("/etc/passwd"));
}

TEST(trust_marks_of_earlier_versions_count)
{
	OWN(freep) char *folder = here("own"), *state = here("own/STATE"), *list = here("own/STATE/" TRUST_MARKS);
	OWN(closep) int fd = -1;

	use_own_folders();
	CHECK_OK(mkdir(folder, 0700));
	CHECK_OK(mkdir(state, 0700));
	fd = open(list, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(write(fd, "/a\0/b/c", 8) == 8);
	CHECK(trust_is_marked("/a/x") && trust_is_marked("/b/c") && !trust_is_marked("/b"));
	CHECK_OK(trust_clear("/b", NULL));
	CHECK(trust_is_marked("/a/x") && !trust_is_marked("/b/c"));
	mark("/b/c");
	CHECK(trust_is_marked("/b/c"));
}

TEST(trust_marks_are_cleared_when_no_cell_writes)
{
	static const char *const folders[] = { "/a", "/b" };
	OWN(trust_marks_free) struct trust_marks m = {0};
	struct err err = {0};
	int held;

	use_own_folders();
	CHECK_ERR(trust_clear("/a", &err), ENOENT);
	held = trust_mark(folders, 2, NULL);
	CHECK(held >= 0);
	mark("/a");
	mark("/c");
	CHECK_OK(trust_marks_load(&m, NULL));
	CHECK(m.n == 3 && m.at[0].is_held && m.at[1].is_held && !m.at[2].is_held && m.at[0].since_ns > 0);
	CHECK_ERR(trust_clear("/a", &err), EBUSY);
	CHECK_ERR(trust_clear("/", &err), EBUSY);
	CHECK(trust_is_marked("/a") && trust_is_marked("/c"));
	CHECK_OK(trust_clear("/c", NULL));
	CHECK_ERR(trust_clear("/c/d", NULL), ENOENT);
	close(held);
	CHECK_OK(trust_clear("/a", NULL));
	CHECK(!trust_is_marked("/a") && trust_is_marked("/b/x"));
	mark("/c");
	CHECK(trust_is_marked("/c/x"));
	CHECK_OK(trust_clear("/", NULL));
	CHECK(!trust_is_marked("/b/x") && !trust_is_marked("/c"));
}

TEST(trust_by_way_of_links)
{
	OWN(freep) char *theirs = here("theirs"), *ours = here("ours");

	use_own_folders();
	CHECK_OK(mkdir(theirs, 0700));
	CHECK_OK(mkdir(ours, 0700));
	mark(theirs);
	CHECK_OK(symlink("../theirs/here", "ours/there"));
	CHECK_OK(symlink(ours, "theirs/here"));
	CHECK_OK(symlink("there", "ours/far"));
	CHECK_OK(symlink("round", "ours/round"));
	CHECK_OK(symlink("ours/../ours/", "near"));
	make_file("ours/file", "", 0600);
	CHECK(!refused(ours) && !refused("ours/file") && !refused(".//near/./file") && !refused("/../../.."));
	CHECK(refused("theirs/here/file") && refused("ours/there/file"));
	CHECK(refused("near/far/file") && refused("theirs"));
	/* What cannot be followed is nobody's word; what is not there can be nobody's. */
	CHECK(refused("ours/round") && !refused("ours/missing") && refused("theirs/missing"));
	/* Where a grant's folder is does not matter, but a link on the way does. */
	CHECK(trust_path(TRUST_GRANT, "theirs", NULL) == 0);
	CHECK_ERR(trust_path(TRUST_GRANT, "theirs/here", NULL), EPERM);
	CHECK_OK(chdir("theirs"));
	CHECK(!refused("../ours/file") && refused("file") && !trust_here());
}

TEST(trust_of_moved_folders_and_second_names)
{
	OWN(freep) char *theirs = here("theirs");
	OWN(closep) int fd = -1;

	use_own_folders();
	CHECK_OK(mkdir("theirs", 0700));
	make_file("theirs/file", "x", 0600);
	make_file("ours", "x", 0600);
	CHECK_OK(link("ours", "mine"));
	mark(theirs);
	CHECK(!refused("mine"));
	CHECK_OK(link("mine", "theirs/deep"));
	CHECK(refused("mine") && refused("ours"));
	CHECK_ERR(trust_open(TRUST_POLICY, "mine", NULL), EPERM);
	CHECK_OK(unlink("theirs/deep"));
	CHECK(!refused("mine"));
	CHECK_OK(rename("theirs", "moved"));
	CHECK(refused("moved/file") && refused("moved"));
	CHECK_OK(mkdir("theirs", 0700));
	CHECK(refused("theirs/file"));
	fd = trust_open(TRUST_POLICY, "mine", NULL);
	CHECK(fd >= 0);
}

/* An agent that closes its folders, or nests them too deep, hides no second name in them. */
TEST(trust_of_second_names_that_are_hidden)
{
	OWN(freep) char *theirs = here("theirs"), *alone = here("alone");
	char deep[1024] = "theirs";

	use_own_folders();
	CHECK_OK(mkdir("theirs", 0700));
	CHECK_OK(mkdir("theirs/closed", 0700));
	make_file("ours", "x", 0600);
	CHECK_OK(link("ours", "theirs/closed/other"));
	mark(theirs);
	/* Root may look all the same, and finds it. */
	for (mode_t mode = 0; mode <= 0600; mode += 0200) {
		CHECK_OK(chmod("theirs/closed", mode));
		CHECK(refused("ours"));
		CHECK_OK(chmod("theirs", mode));
		CHECK(refused("ours"));
		CHECK_OK(chmod("theirs", 0700));
	}
	CHECK_OK(chmod("theirs/closed", 0700));
	CHECK_OK(rename("theirs/closed/other", "elsewhere"));
	CHECK(!refused("ours"));
	for (int i = 0; i < 200; i++) {
		snprintf(deep + strlen(deep), sizeof(deep) - strlen(deep), "/d");
		CHECK_OK(mkdir(deep, 0700));
	}
	snprintf(deep + strlen(deep), sizeof(deep) - strlen(deep), "/other");
	CHECK_OK(rename("elsewhere", deep));
	CHECK(refused("ours"));

	/* A file that was granted alone. */
	make_file("alone", "x", 0600);
	CHECK_OK(link("alone", "second"));
	CHECK(trust_clear(theirs, NULL) == 0 && !refused("second"));
	mark(alone);
	CHECK(refused("second"));
}

TEST(trust_also_counts)
{
	OWN(freep) char *file = here("work/file");
	static char work[PATH_MAX];

	use_own_folders();
	snprintf(work, sizeof(work), "%s/work", test_dir());
	CHECK_OK(mkdir(work, 0700));
	CHECK(!refused(file));
	trust_also(work);
	CHECK(refused(file) && !refused(test_dir()));
}

TEST(trust_of_our_own_folders)
{
	OWN(freep) char *own = here("own/DATA"), *beside = here("own/other");

	use_own_folders();
	mark(test_dir());
	CHECK_OK(mkdir(own, 0700));
	CHECK(!refused("own/DATA/registry/x") && !refused("own/STATE/writable"));
	CHECK(refused(beside) && refused("own/DATA/../other"));
}

/* ---- commands ---- */

static int
run_check(const char *first, const char *second, const char *third)
{
	char *words[] = { (char *)(uintptr_t)first, (char *)(uintptr_t)second, (char *)(uintptr_t)third, NULL };
	char program[PATH_MAX];

	return trust_command(TRUST_SECRET_COMMAND, words, program, NULL);
}

TEST(trust_of_commands)
{
	OWN(freep) char *theirs = here("theirs"), *path = here("theirs:/usr/bin:/bin");
	OWN(freep) char *tok = here("theirs/tok"), *quoted = str_format("cat %s | sh", tok);
	OWN(freep) char *option = str_format("--file=%s", tok), *at = str_format("@%s", tok);
	OWN(freep) char *attached = str_format("-sK%s", tok);
	OWN(freep) char *line = str_format("#!%s\n", tok), *list = str_format("/a:%s", tok);

	use_own_folders();
	CHECK_OK(mkdir("theirs", 0700));
	make_file(tok, "#!/bin/sh\n", 0755);
	make_file("script", line, 0755);
	make_file("env", "#!/usr/bin/env tok\n", 0755);
	mark(theirs);
	CHECK_OK(run_check("sh", "-c", "echo hello"));
	CHECK_OK(run_check("pass", "show", "theirs-not/api"));
	CHECK_ERR(run_check(tok, NULL, NULL), EPERM);
	CHECK_ERR(run_check("sh", tok, NULL), EPERM);
	CHECK_ERR(run_check("sh", "-c", quoted), EPERM);
	CHECK_ERR(run_check("sh", "-c", "sh theirs/tok"), EPERM);
	CHECK_ERR(run_check("sh", "-c", "cd theirs && ./tok"), EPERM);
	CHECK_ERR(run_check("sh", "-c", "exec ./script"), EPERM);
	CHECK_ERR(run_check("curl", option, NULL), EPERM);
	CHECK_ERR(run_check("curl", "-K", at), EPERM);
	CHECK_ERR(run_check("curl", attached, NULL), EPERM);
	CHECK_ERR(run_check("make", "-Ctheirs", NULL), EPERM);
	CHECK_ERR(run_check("sh", "-c", "perl -wItheirs/../theirs x; make -Ctheirs"), EPERM);
	CHECK_OK(run_check("make", "-C", "-Ours"));
	CHECK_ERR(run_check("env", list, NULL), EPERM);
	CHECK_ERR(run_check("./script", NULL, NULL), EPERM);
	setenv("WHERE", theirs, 1);
	CHECK_ERR(run_check("sh", "-c", "\"$WHERE/tok\""), EPERM);
	CHECK_ERR(run_check("sh", "-c", "\"${WHERE}/not-yet\""), EPERM);
	setenv("HOME", test_dir(), 1);
	CHECK_ERR(run_check("sh", "-c", "~/theirs/tok"), EPERM);
	setenv("PATH", path, 1);
	CHECK_ERR(run_check("tok", NULL, NULL), EPERM);
	CHECK_ERR(run_check("./env", NULL, NULL), EPERM);
	CHECK_ERR(run_check("sh", "-c", "echo x; tok"), EPERM);
	CHECK_OK(run_check("sh", "-c", "echo x"));
}

/* A relative path is seen from wherever the command goes. */
TEST(trust_of_commands_that_go_elsewhere)
{
	OWN(freep) char *theirs = here("theirs"), *tok = here("theirs/tok");
	OWN(freep) char *cd = str_format("cd %s && cat theirs/tok", test_dir());
	OWN(freep) char *option = str_format("-C%s", test_dir());

	use_own_folders();
	CHECK_OK(mkdir("theirs", 0700));
	CHECK_OK(mkdir("ours", 0700));
	make_file(tok, "", 0600);
	make_file("ours/tok", "", 0600);
	mark(theirs);
	setenv("HOME", test_dir(), 1);
	CHECK_OK(chdir("/"));
	CHECK_ERR(run_check("sh", "-c", cd), EPERM);
	CHECK_ERR(run_check("sh", "-c", "cd ~; ./theirs/tok"), EPERM);
	CHECK_ERR(run_check("sh", "-c", "cd ~/ours && cat ../theirs/tok"), EPERM);
	CHECK_ERR(run_check("make", option, "theirs/tok"), EPERM);
	CHECK_OK(run_check("make", option, "ours/tok"));
	CHECK_OK(run_check("sh", "-c", "cat theirs/tok"));
}

static int
count(void *arg, const char *path)
{
	(void)path;
	++*(size_t *)arg;
	return 0;
}

TEST(trust_remembers_believed_files)
{
	OWN(freep) char *ours = here("ours");
	size_t n = 0;

	use_own_folders();
	make_file(ours, "x", 0700);
	CHECK_OK(run_check("sh", ours, NULL));
	CHECK_OK(run_check("sh", ours, NULL));
	CHECK_OK(trust_each_believed(count, &n));
	CHECK(n == 1);
	for (int i = 0; i < 6000; i++) {
		OWN(freep) char *path = str_format("/some/where/that/is/not/so/short/either/%d", i);

		trust_believe(path);
	}
	n = 0;
	CHECK_OK(trust_each_believed(count, &n));
	CHECK(n > 2000 && n < 6000);
}
