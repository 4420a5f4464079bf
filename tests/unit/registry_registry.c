/* registry_registry.c - tests of the registry: versions, names, blobs and trees. */
#include "registry/registry.h"
#include "registry/registry_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "canon/canon.h"
#include "registry/object.h"
#include "test.h"

static struct registry *
open_registry(void)
{
	struct registry *r = NULL;
	struct err err = {0};

	setenv("CLOISTER_DATA_DIR", test_dir(), 1);
	if (registry_open(true, &r, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	return r;
}

static struct object *
make_object(struct registry *r, enum registry_kind kind, const char *text)
{
	OWN(json_decrefp) json_t *said = NULL;
	char pointer[OBJECT_POINTER_MAX];
	struct object *o = NULL;
	struct err err = {0};

	CHECK_OK(canon_read(text, strlen(text), &said, &err));
	if (object_read_json(r, kind, said, &o, pointer, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", pointer, err.text);
	return o;
}

static bool
put(struct registry *r, const char *text, struct registry_version *ret_version)
{
	OWN(object_freep) struct object *o = make_object(r, REGISTRY_ENV, text);
	struct err err = {0};
	bool created;

	if (registry_put(r, o, NULL, ret_version, &created, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_STR(ret_version->hash, o->hash);
	return created;
}

/* ---- names ---- */

static const struct {
	const char *name;
	bool ok;
} name_cases[] = {
	{ "a", true }, { "0", true }, { "a.b_c-d", true }, { "", false }, { ".a", false },
	{ "-a", false }, { "A", false }, { "a/b", false }, { "..", false }, { "a b", false },
	{ "a\n", false }, { "\xc3\xa9", false }, { "a@b", false },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false },
};

TEST(registry_names)
{
	for (size_t i = 0; i < ARRAY_LEN(name_cases); i++)
		if (registry_name_ok(name_cases[i].name) != name_cases[i].ok)
			test_fail(__FILE__, __LINE__, "'%s'", name_cases[i].name);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *text;
	bool whole, cut;                /* taken without and with hashes cut short */
} ref_cases[] = {
	{ "x", true, true }, { "x@sha256:" HEX, true, true }, { "x@sha256:01234567", false, true },
	{ "x@sha256:0123456", false, false }, { "x@sha256:", false, false }, { "x@", false, false },
	{ "x@" HEX, false, false }, { "x@sha256:" HEX "0", false, false }, { "@sha256:" HEX, false, false },
	{ "x@sha256:0123456G", false, false }, { "x@sha512:" HEX, false, false },
	{ "x@sha256:" HEX "@sha256:" HEX, false, false }, { "../x", false, false },
};

TEST(registry_refs)
{
	struct registry_ref ref;

	for (size_t i = 0; i < ARRAY_LEN(ref_cases); i++)
		if ((registry_ref_parse(ref_cases[i].text, false, &ref, NULL) == 0) != ref_cases[i].whole ||
		    (registry_ref_parse(ref_cases[i].text, true, &ref, NULL) == 0) != ref_cases[i].cut)
			test_fail(__FILE__, __LINE__, "'%s'", ref_cases[i].text);
}

/* ---- versions ---- */

TEST(registry_versions)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(registry_page_free) struct registry_page page = {0};
	struct registry_version one, two, got;
	char ref[REGISTRY_REF_MAX + 1];

	CHECK(put(r, "{\"name\":\"e\",\"values\":{\"A\":\"1\"}}", &one));
	CHECK(put(r, "{\"name\":\"e\",\"values\":{\"A\":\"2\"}}", &two));
	CHECK(one.number == 1 && one.newest && two.number == 2 && two.newest);
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, "e", REGISTRY_LIVE, &got, NULL, NULL));
	CHECK_STR(got.hash, two.hash);
	/* What is registered again is the newest again, and no new version. */
	CHECK(!put(r, "{\"values\":{\"A\":\"1\"},\"name\":\"e\",\"version\":1}", &got));
	CHECK(got.number == 1 && got.newest);
	CHECK_STR(got.created, one.created);
	CHECK_OK(registry_history(r, REGISTRY_ENV, "e", 0, 0, &page, NULL));
	CHECK(page.n == 2 && !page.more);
	CHECK(page.at[0].number == 2 && !page.at[0].newest && page.at[1].newest);
	/* Pins, whole and cut short. */
	snprintf(ref, sizeof(ref), "e@%s", two.hash);
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, ref, REGISTRY_LIVE, &got, NULL, NULL));
	CHECK_STR(got.hash, two.hash);
	ref[strlen("e@sha256:") + REGISTRY_PREFIX_MIN] = '\0';
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, ref, REGISTRY_LIVE, &got, NULL, NULL));
	CHECK_STR(got.hash, two.hash);
	CHECK_ERR(registry_resolve(r, REGISTRY_AGENT, "e", REGISTRY_LIVE, &got, NULL, NULL), ENOENT);
	CHECK_ERR(registry_resolve(r, REGISTRY_ENV, "e@sha256:" HEX, REGISTRY_LIVE, &got, NULL, NULL),
	          ENOENT);
}

TEST(registry_retires)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(object_freep) struct object *o = NULL;
	struct registry_version one, two, got;
	char ref[REGISTRY_REF_MAX + 1];
	bool created;
	size_t n;

	put(r, "{\"name\":\"e\",\"values\":{\"A\":\"1\"}}", &one);
	put(r, "{\"name\":\"e\",\"values\":{\"A\":\"2\"}}", &two);
	snprintf(ref, sizeof(ref), "e@%s", two.hash);
	CHECK_OK(registry_retire(r, REGISTRY_ENV, ref, false, NULL, &n, NULL));
	CHECK_U64(n, 1);
	CHECK_ERR(registry_resolve(r, REGISTRY_ENV, ref, REGISTRY_LIVE, &got, NULL, NULL), EIDRM);
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, ref, REGISTRY_ALL, &got, NULL, NULL));
	CHECK(got.retired[0] != '\0' && !got.newest);
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, "e", REGISTRY_LIVE, &got, NULL, NULL));
	CHECK_STR(got.hash, one.hash);
	/* Whoever retired it meant it, whatever is registered by somebody's script. */
	o = make_object(r, REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"A\":\"2\"}}");
	CHECK_ERR(registry_put(r, o, NULL, &got, &created, NULL), EIDRM);
	CHECK_OK(registry_retire(r, REGISTRY_ENV, "e", false, NULL, &n, NULL));
	CHECK_U64(n, 1);
	CHECK_ERR(registry_resolve(r, REGISTRY_ENV, "e", REGISTRY_LIVE, &got, NULL, NULL), EIDRM);
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, "e", REGISTRY_ALL, &got, NULL, NULL));
	CHECK_OK(registry_retire(r, REGISTRY_ENV, ref, true, NULL, &n, NULL));
	CHECK_U64(n, 1);
	CHECK_OK(registry_resolve(r, REGISTRY_ENV, "e", REGISTRY_LIVE, &got, NULL, NULL));
	CHECK_STR(got.hash, two.hash);
	CHECK_ERR(registry_retire(r, REGISTRY_ENV, "f", false, NULL, &n, NULL), ENOENT);
}

/* ---- notes ---- */

struct told {
	char text[256];
	int left;                       /* so many are taken; then it fails */
};

static int
tell(void *arg, const char *event, size_t len, struct err *err)
{
	struct told *told = arg;

	if (told->left-- == 0)
		return err_set(err, ENOSPC, "no room");
	CHECK_U64(len, strlen(event));
	strncat(told->text, event, sizeof(told->text) - strlen(told->text) - 1);
	return 0;
}

/* They are there with the change, once, and stay until they are told. */
TEST(registry_notes)
{
	OWN(registry_closep) struct registry *r = open_registry(), *other = NULL;
	OWN(object_freep) struct object *o = make_object(r, REGISTRY_ENV, "{\"name\":\"e\",\"values\":{}}");
	struct told told = { .left = 10 }, half = { .left = 1 };
	struct registry_version v;
	bool created;
	size_t n;

	CHECK(registry_put(r, o, "{1}", &v, &created, NULL) == 1);
	/* Nothing changed: there is nothing to tell. */
	CHECK_OK(registry_put(r, o, "{2}", &v, &created, NULL));
	CHECK_OK(registry_retire(r, REGISTRY_ENV, "e", false, "{3}", &n, NULL));
	CHECK_OK(registry_retire(r, REGISTRY_ENV, "e", false, "{4}", &n, NULL));
	CHECK_ERR(registry_put(r, o, "{5}", &v, &created, NULL), EIDRM);
	CHECK_ERR(registry_tell_notes(r, tell, &half, NULL), ENOSPC);
	CHECK_STR(half.text, "{1}");
	/* Whoever comes next goes on with it. */
	CHECK_OK(registry_open(false, &other, NULL));
	CHECK_OK(registry_tell_notes(other, tell, &told, NULL));
	CHECK_STR(told.text, "{3}");
	CHECK_OK(registry_tell_notes(r, tell, &told, NULL));
	CHECK_STR(told.text, "{3}");
}

TEST(registry_pages)
{
	OWN(registry_closep) struct registry *r = open_registry();
	struct registry_version v;
	struct registry_page page;
	char text[64], after[REGISTRY_NAME_MAX + 1] = "";
	size_t n = 0, retired;

	for (int i = 0; i < 7; i++) {
		snprintf(text, sizeof(text), "{\"name\":\"e%d\",\"values\":{}}", i);
		put(r, text, &v);
	}
	CHECK_OK(registry_retire(r, REGISTRY_ENV, "e3", false, NULL, &retired, NULL));
	for (bool more = true; more;) {
		CHECK_OK(registry_list(r, REGISTRY_ENV, REGISTRY_LIVE, after, 2, &page, NULL));
		CHECK(page.n <= 2);
		for (size_t i = 0; i < page.n; i++, n++)
			CHECK(strcmp(page.at[i].name, "e3") != 0 && strcmp(page.at[i].name, after) > 0);
		snprintf(after, sizeof(after), "%s", page.at[page.n - 1].name);
		more = page.more;
		registry_page_free(&page);
	}
	CHECK_U64(n, 6);
	CHECK_OK(registry_list(r, REGISTRY_ENV, REGISTRY_ALL, "", 0, &page, NULL));
	CHECK_U64(page.n, 7);
	registry_page_free(&page);
	CHECK_ERR(registry_history(r, REGISTRY_ENV, "none", 0, 0, &page, NULL), ENOENT);
}

/* ---- blobs and trees ---- */

TEST(registry_blobs)
{
	OWN(registry_closep) struct registry *r = open_registry();
	char hash[HASH_NAME + 1], again[HASH_NAME + 1], text[8] = "";
	OWN(closep) int fd = -1, from = -1;
	uint64_t size;

	CHECK_OK(registry_put_blob(r, "abc", 3, hash, NULL));
	CHECK_STR(hash, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	fd = registry_open_blob(r, hash, NULL);
	CHECK_OK(fd);
	CHECK(read(fd, text, sizeof(text)) == 3 && strcmp(text, "abc") == 0);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	from = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	CHECK_ERR(registry_put_blob_fd(r, from, 2, again, &size, NULL), EFBIG);
	CHECK(lseek(fd, 0, SEEK_SET) == 0);
	CHECK_OK(registry_put_blob_fd(r, from, 3, again, &size, NULL));
	CHECK_STR(again, hash);
	CHECK_U64(size, 3);
	CHECK_ERR(registry_open_blob(r, "sha256:" HEX, NULL), ENOENT);
	CHECK_ERR(registry_open_blob(r, "sha256:../../x", NULL), EINVAL);
}

TEST(registry_trees)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(object_freep) struct object *o = make_object(r, REGISTRY_CAPABILITY,
		"{\"name\":\"c\",\"files\":[{\"path\":\"setup.sh\",\"content\":\"#!/bin/sh\\n\"},"
		"{\"path\":\"a/b/c.txt\",\"content_base64\":\"AAEC\"},"
		"{\"path\":\"a/run\",\"content\":\"x\",\"executable\":true}]}");
	struct registry_version v;
	OWN(freep) char *path = NULL, *file = NULL, *text = NULL;
	struct stat st;
	size_t len;
	bool created;

	CHECK(json_is_true(json_object_get(o->content, "setup")));
	CHECK_OK(registry_put(r, o, NULL, &v, &created, NULL));
	for (int i = 0; i < 2; i++) {
		free(TAKE(path));
		CHECK_OK(registry_tree(r, &v, o->content, &path, NULL, NULL));
	}
	CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0555);
	file = str_format("%s/a/b/c.txt", path);
	CHECK_OK(read_file_at(AT_FDCWD, file, 10, &text, &len, NULL));
	CHECK(len == 3 && memcmp(text, "\0\1\2", 3) == 0);
	CHECK(stat(file, &st) == 0 && (st.st_mode & 07777) == 0444);
	free(TAKE(file));
	file = str_format("%s/setup.sh", path);
	CHECK(stat(file, &st) == 0 && (st.st_mode & 07777) == 0555);
}

/* Whoever has the operator's uid can open it for writing again. */
static void
open_up(const char *path)
{
	CHECK_OK(chmod(path, 0700));
}

static bool
is_refused(struct registry *r, const struct registry_version *v, const struct object *o)
{
	OWN(freep) char *path = NULL, *trees = str_format("%s/registry/trees", test_dir());
	OWN(closep) int fd = open(trees, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool refused = registry_tree(r, v, o->content, &path, NULL, NULL) == -EUCLEAN;

	/* By the list that lies beside it, too. */
	CHECK((registry_check_tree(fd, v->hash + strlen(HASH_PREFIX), NULL, NULL) == -EUCLEAN) == refused);
	return refused;
}

TEST(registry_trees_are_checked_each_time)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(object_freep) struct object *o = make_object(r, REGISTRY_CAPABILITY,
		"{\"name\":\"c\",\"files\":[{\"path\":\"a/run\",\"content\":\"x\",\"executable\":true},"
		"{\"path\":\"b\",\"content\":\"y\"}]}");
	OWN(freep) char *path = NULL;
	struct registry_version v;
	bool created;

	CHECK_OK(registry_put(r, o, NULL, &v, &created, NULL));
	CHECK_OK(registry_tree(r, &v, o->content, &path, NULL, NULL));
	CHECK(!is_refused(r, &v, o));
	CHECK_OK(chdir(path));
	open_up(".");
	open_up("a");
	CHECK(!is_refused(r, &v, o));
	/* Another byte, another mode, one more, one less, a link, a folder. */
	CHECK_OK(rename("a/run", "../run"));
	CHECK(is_refused(r, &v, o));
	CHECK_OK(create_file_at(AT_FDCWD, "a/run", 0555, "z", NULL));
	CHECK_OK(chmod("a/run", 0555));
	CHECK(is_refused(r, &v, o));
	CHECK_OK(unlink("a/run"));
	CHECK_OK(symlink("../../run", "a/run"));
	CHECK(is_refused(r, &v, o));
	CHECK_OK(rename("../run", "a/run"));
	CHECK(!is_refused(r, &v, o));
	CHECK_OK(chmod("b", 0555));
	CHECK(is_refused(r, &v, o));
	CHECK_OK(chmod("b", 0444));
	CHECK_OK(create_file_at(AT_FDCWD, "c", 0444, "", NULL));
	CHECK(is_refused(r, &v, o));
	CHECK_OK(unlink("c"));
	CHECK_OK(mkdir("c", 0755));
	CHECK(is_refused(r, &v, o));
	CHECK_OK(rmdir("c"));
	CHECK(!is_refused(r, &v, o));
}

/* What is changed while a cell has it, and then made as it was. */
TEST(registry_trees_since)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(object_freep) struct object *o = make_object(r, REGISTRY_CAPABILITY,
		"{\"name\":\"c\",\"files\":[{\"path\":\"a/b\",\"content\":\"y\"}]}");
	OWN(freep) char *path = NULL, *folder = NULL, *file = NULL, *away = NULL;
	struct registry_version v;
	uint64_t since;
	bool created;

	CHECK_OK(registry_put(r, o, NULL, &v, &created, NULL));
	for (int i = 0; i < 3; i++) {
		free(TAKE(path));
		CHECK_OK(registry_tree(r, &v, o->content, &path, &since, NULL));
		CHECK(since > 0 && registry_tree_is_since(r, v.hash, since));
		free(TAKE(folder));
		folder = str_format("%s/a", path);
		free(TAKE(file));
		file = str_format("%s/b", folder);
		free(TAKE(away));
		away = str_format("%s/../c", path);
		if (i == 0)
			CHECK_OK(chmod(file, 0444));
		if (i == 1) {
			open_up(folder);
			CHECK_OK(rename(file, away));
			CHECK_OK(rename(away, file));
			CHECK_OK(chmod(folder, 0555));
		}
		CHECK(registry_tree_is_since(r, v.hash, since) == (i == 2));
		CHECK(!is_refused(r, &v, o));
	}
	CHECK(!registry_tree_is_since(r, "sha256:00", since));
}

/* A disk that forgot is told from one that did not. */
TEST(registry_tree_checks_blobs)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(object_freep) struct object *o = make_object(r, REGISTRY_CAPABILITY,
		"{\"name\":\"c\",\"files\":[{\"path\":\"f\",\"content\":\"abc\"}]}");
	OWN(freep) char *path = NULL, *blob = NULL;
	struct registry_version v;
	bool created;

	CHECK_OK(registry_put(r, o, NULL, &v, &created, NULL));
	blob = str_format("%s/registry/blobs/ba/"
	                  "7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", test_dir());
	CHECK_OK(chmod(blob, 0600));
	CHECK_OK(create_file_at(AT_FDCWD, blob, 0600, "abd", NULL));
	CHECK_ERR(registry_tree(r, &v, o->content, &path, NULL, NULL), EUCLEAN);
	CHECK_OK(unlink(blob));
	CHECK_ERR(registry_tree(r, &v, o->content, &path, NULL, NULL), ENOENT);
	CHECK_ERR(registry_put(r, o, NULL, &v, &created, NULL), ENOENT);
}

/* What could not be kept, because a folder could not be made, is not in the way of what comes later. */
TEST(registry_blob_without_room)
{
	OWN(registry_closep) struct registry *r = open_registry();
	OWN(freep) char *folder = str_format("%s/registry/blobs/ba", test_dir());
	char hash[HASH_NAME + 1];

	/* A link to nowhere: neither can it be made nor anything in it. */
	CHECK_OK(symlink("nowhere", folder));
	CHECK(registry_put_blob(r, "abc", 3, hash, NULL) < 0);
	CHECK_OK(unlink(folder));
	CHECK_OK(registry_put_blob(r, "abd", 3, hash, NULL));
	CHECK_OK(registry_put_blob(r, "abc", 3, hash, NULL));
}

/* ---- differences ---- */

static const struct {
	const char *from, *to, *want;
} diff_cases[] = {
	{ "{\"a\":1}", "{\"a\":1}", "[]" },
	{ "{\"a\":1,\"b\":{\"c/d\":1}}", "{\"b\":{\"c/d\":2},\"e\":3}",
	  "[{\"from\":1,\"path\":\"/a\"},{\"from\":1,\"path\":\"/b/c~1d\",\"to\":2},"
	  "{\"path\":\"/e\",\"to\":3}]" },
	{ "{\"l\":[1,2,3]}", "{\"l\":[1,4,5,3]}",
	  "[{\"from\":2,\"path\":\"/l/1\"},{\"path\":\"/l/1\",\"to\":4},{\"path\":\"/l/2\",\"to\":5}]" },
	{ "{\"l\":[1,1]}", "{\"l\":[1]}", "[{\"from\":1,\"path\":\"/l/1\"}]" },
	{ "{\"files\":[{\"path\":\"a\",\"size\":1},{\"path\":\"b\",\"size\":1}]}",
	  "{\"files\":[{\"path\":\"b\",\"size\":2},{\"path\":\"c\",\"size\":3}]}",
	  "[{\"from\":{\"path\":\"a\",\"size\":1},\"path\":\"/files/a\"},"
	  "{\"from\":{\"path\":\"b\",\"size\":1},\"path\":\"/files/b\",\"to\":{\"path\":\"b\",\"size\":2}},"
	  "{\"path\":\"/files/c\",\"to\":{\"path\":\"c\",\"size\":3}}]" },
};

TEST(registry_diffs)
{
	for (size_t i = 0; i < ARRAY_LEN(diff_cases); i++) {
		OWN(json_decrefp) json_t *from = json_loads(diff_cases[i].from, 0, NULL);
		OWN(json_decrefp) json_t *to = json_loads(diff_cases[i].to, 0, NULL), *diff = NULL;
		OWN(freep) char *text = NULL;
		size_t len;

		CHECK_OK(registry_diff(from, to, &diff, NULL));
		CHECK_OK(canon_dump(diff, 4096, &text, &len, NULL));
		CHECK_STR(text, diff_cases[i].want);
	}
}
