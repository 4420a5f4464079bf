/* image_store.c - the store of images: blobs, names, layers, uses, and what a sweep leaves. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "image/store.h"
#include "test.h"

static struct store *
open_store(void)
{
	struct store *s = NULL;

	CHECK(setenv("CLOISTER_DATA_DIR", test_dir(), 1) == 0);
	CHECK_OK(store_open(true, &s, NULL));
	return s;
}

static void
put(struct store *s, const char *text, char ret_digest[HASH_NAME + 1])
{
	CHECK_OK(store_put_blob(s, text, strlen(text), ret_digest, NULL));
}

static size_t
count(const struct store *s, const char *folder)
{
	OWN(freep) char *path = str_format("%s/%s", store_path(s), folder);
	OWN(closedirp) DIR *dir = opendir(path);
	const struct dirent *d;
	size_t n = 0;

	CHECK(dir != NULL);
	while ((d = readdir(dir)) != NULL)
		n += strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
	return n;
}

/* An image with one layer, whose text and diff id is LAYER. */
static struct image_descriptor
make_image(struct store *s, const char *layer, const char *name, char ret_layer[HASH_NAME + 1])
{
	struct image_descriptor d = { .media_type = IMAGE_TYPE_OCI_MANIFEST };
	OWN(freep) char *config = NULL, *manifest = NULL;
	char config_digest[HASH_NAME + 1];

	put(s, layer, ret_layer);
	config = str_format("{\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"%s\"]}}", ret_layer);
	put(s, config, config_digest);
	manifest = str_format("{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" IMAGE_TYPE_OCI_CONFIG
	                      "\",\"digest\":\"%s\",\"size\":%zu},\"layers\":[{\"mediaType\":\"" IMAGE_TYPE_OCI_LAYER
	                      "\",\"digest\":\"%s\",\"size\":%zu}]}", config_digest, strlen(config), ret_layer,
	                      strlen(layer));
	put(s, manifest, d.digest);
	d.size = strlen(manifest);
	d.name = (char *)(uintptr_t)name;
	CHECK_OK(store_set(s, &d, NULL));
	return d;
}

static void
make_layer(struct store *s, const char *diff_id)
{
	struct store_layer layer;

	CHECK_OK(store_layer_begin(s, &layer, NULL));
	CHECK_OK(create_file_at(layer.fs, "file", 0000, "x", NULL));
	CHECK_OK(store_layer_finish(s, &layer, diff_id, NULL));
}

TEST(store_is_absent)
{
	struct store *s = NULL;

	CHECK(setenv("CLOISTER_DATA_DIR", test_dir(), 1) == 0);
	CHECK_ERR(store_open(false, &s, NULL), ENOENT);
}

TEST(store_blobs)
{
	OWN(store_closep) struct store *s = open_store();
	OWN(store_blob_abortp) struct store_blob *b = NULL;
	OWN(freep) char *text = NULL;
	char digest[HASH_NAME + 1], other[HASH_NAME + 1];
	size_t len;

	put(s, "hello", digest);
	CHECK(store_has_blob(s, digest));
	CHECK_OK(store_read_blob(s, digest, 100, &text, &len, NULL));
	CHECK_STR(text, "hello");
	CHECK_U64(count(s, "parts"), 0);
	/* Too long, too short, something else: nothing is stored. */
	put(s, "other", other);
	CHECK(unlinkat(store_folder(s), "blobs/sha256", 0) < 0);
	CHECK_OK(store_blob_begin(s, digest, 3, &b, NULL));
	CHECK_ERR(store_blob_write(b, "hello", 5, NULL), EFBIG);
	store_blob_abort(TAKE(b));
	CHECK_OK(store_blob_begin(s, digest, 7, &b, NULL));
	CHECK_OK(store_blob_write(b, "hello", 5, NULL));
	CHECK_ERR(store_blob_finish(TAKE(b), NULL, NULL), EBADMSG);
	CHECK_OK(store_blob_begin(s, digest, 5, &b, NULL));
	CHECK_OK(store_blob_write(b, "hullo", 5, NULL));
	CHECK_ERR(store_blob_finish(TAKE(b), NULL, NULL), EBADMSG);
	CHECK_U64(count(s, "parts"), 0);
	CHECK_U64(count(s, "blobs/sha256"), 2);
}

TEST(store_blob_changed)
{
	OWN(store_closep) struct store *s = open_store();
	OWN(freep) char *path = NULL;
	char *text = NULL, digest[HASH_NAME + 1];
	size_t len;

	put(s, "hello", digest);
	path = str_format("%s/blobs/sha256/%s", store_path(s), digest + strlen(HASH_PREFIX));
	CHECK_OK(create_file_at(AT_FDCWD, path, 0600, "hullo", NULL));
	CHECK_ERR(store_read_blob(s, digest, 100, &text, &len, NULL), EBADMSG);
}

TEST(store_blob_resumes)
{
	OWN(store_closep) struct store *s = open_store();
	OWN(store_blob_abortp) struct store_blob *b = NULL, *second = NULL;
	unsigned char hash[HASH_LEN];
	char digest[HASH_NAME + 1], got[HASH_NAME + 1];

	hash_of("hello", 5, hash);
	hash_name(hash, digest);
	CHECK_OK(store_blob_begin(s, digest, 5, &b, NULL));
	CHECK_U64(store_blob_offset(b), 0);
	CHECK_OK(store_blob_write(b, "he", 2, NULL));
	CHECK_ERR(store_blob_begin(s, digest, 5, &second, NULL), EBUSY);
	store_blob_suspend(TAKE(b));
	CHECK_OK(store_blob_begin(s, digest, 5, &b, NULL));
	CHECK_U64(store_blob_offset(b), 2);
	CHECK_OK(store_blob_write(b, "llo", 3, NULL));
	CHECK_OK(store_blob_finish(TAKE(b), got, NULL));
	CHECK_STR(got, digest);
	/* Begun anew; and what is longer than it should be is of no use. */
	CHECK_OK(store_blob_begin(s, digest, 5, &b, NULL));
	CHECK_OK(store_blob_write(b, "xxxxx", 5, NULL));
	CHECK_OK(store_blob_restart(b, NULL));
	CHECK_OK(store_blob_write(b, "hel", 3, NULL));
	store_blob_suspend(TAKE(b));
	CHECK_OK(store_blob_begin(s, digest, 2, &b, NULL));
	CHECK_U64(store_blob_offset(b), 0);
}

TEST(store_names)
{
	OWN(store_closep) struct store *s = open_store();
	OWN(image_index_free) struct image_index index = {0};
	OWN(store_found_free) struct image_descriptor found = {0};
	char layer[HASH_NAME + 1];
	struct image_descriptor a = make_image(s, "one", "x/a:1", layer), b = make_image(s, "two", "x/b:1", layer);

	CHECK_OK(store_find(s, "x/a:1", &found, NULL));
	CHECK_STR(found.digest, a.digest);
	CHECK_STR(found.name, "x/a:1");
	/* The name moves; the image that had it stays, without one. */
	b.name = a.name;
	CHECK_OK(store_set(s, &b, NULL));
	CHECK_OK(store_list(s, &index, NULL));
	CHECK_U64(index.n, 3);
	store_found_free(&found);
	CHECK_OK(store_find(s, "x/a:1", &found, NULL));
	CHECK_STR(found.digest, b.digest);
	store_found_free(&found);
	CHECK_OK(store_find(s, a.digest, &found, NULL));
	CHECK(found.name == NULL);
	/* Both names are of one image: without one of them it needs no entry without a name. */
	CHECK_OK(store_unset(s, "x/b:1", NULL));
	image_index_free(&index);
	CHECK_OK(store_list(s, &index, NULL));
	CHECK_U64(index.n, 2);
	CHECK_ERR(store_unset(s, "x/b:1", NULL), ENOENT);
	CHECK_OK(store_drop(s, b.digest, NULL));
	CHECK_ERR(store_drop(s, b.digest, NULL), ENOENT);
	store_found_free(&found);
	CHECK_ERR(store_find(s, "x/a:1", &found, NULL), ENOENT);
}

TEST(store_set_wants_all)
{
	OWN(store_closep) struct store *s = open_store();
	OWN(freep) char *path = NULL;
	char layer[HASH_NAME + 1];
	struct image_descriptor a = make_image(s, "one", "x/a:1", layer);

	path = str_format("blobs/sha256/%s", layer + strlen(HASH_PREFIX));
	CHECK(unlinkat(store_folder(s), path, 0) == 0);
	CHECK_ERR(store_set(s, &a, NULL), ENOENT);
}

static void
put_file(const struct store *s, const char *folder, const char *digest)
{
	OWN(freep) char *path = str_format("%s/%s", folder, digest + strlen(HASH_PREFIX));

	CHECK(mkdirat(store_folder(s), folder, 0700) == 0 || errno == EEXIST);
	CHECK_OK(create_file_at(store_folder(s), path, 0600, "x", NULL));
}

TEST(store_sweeps_signatures)
{
	OWN(store_closep) struct store *s = open_store();
	char one[HASH_NAME + 1], two[HASH_NAME + 1];
	struct image_descriptor a = make_image(s, "one", "x/a:1", one), b = make_image(s, "two", "x/b:1", two);
	struct store_swept swept;

	put_file(s, STORE_SIGNATURES, a.digest);
	put_file(s, STORE_SIGNATURES, b.digest);
	CHECK_OK(store_sweep(s, true, NULL, &swept, NULL));
	CHECK_U64(count(s, STORE_SIGNATURES), 2);
	CHECK_OK(store_drop(s, b.digest, NULL));
	CHECK_OK(store_sweep(s, false, NULL, &swept, NULL));
	CHECK_U64(count(s, STORE_SIGNATURES), 1);
	CHECK_U64(swept.leftovers, 1);
}

TEST(store_made_of_a_file)
{
	OWN(store_closep) struct store *s = open_store();
	OWN(store_found_free) struct image_descriptor found = {0}, again = {0};
	OWN(freep) char *path = str_format("%s/source", test_dir());
	char layer[HASH_NAME + 1];
	struct image_descriptor a = make_image(s, "one", "x/a:1", layer);
	struct store_key key, other;
	struct store_swept swept;

	CHECK_ERR(store_made_key("k", path, &key), ENOENT);
	CHECK_OK(create_file_at(AT_FDCWD, path, 0600, "one", NULL));
	CHECK_OK(store_made_key("k", path, &key));
	CHECK_ERR(store_made_find(s, &key, &found), ENOENT);
	store_made_note(s, &key, a.digest, "x/a:1");
	CHECK_OK(store_made_find(s, &key, &found));
	CHECK_STR(found.digest, a.digest);
	CHECK_OK(store_made_key("another", path, &other));
	CHECK_ERR(store_made_find(s, &other, &again), ENOENT);
	CHECK_OK(create_file_at(AT_FDCWD, path, 0600, "other", NULL));
	CHECK_OK(store_made_key("k", path, &other));
	CHECK_ERR(store_made_find(s, &other, &again), ENOENT);
	/* Without its name it is another's to give. */
	CHECK_OK(store_unset(s, "x/a:1", NULL));
	CHECK_ERR(store_made_find(s, &key, &again), ENOENT);
	CHECK_OK(store_sweep(s, true, NULL, &swept, NULL));
	CHECK_U64(count(s, "made"), 0);
}

TEST(store_sweeps)
{
	OWN(store_closep) struct store *s = open_store();
	char one[HASH_NAME + 1], two[HASH_NAME + 1], stray[HASH_NAME + 1];
	struct image_descriptor a = make_image(s, "one", "x/a:1", one), b = make_image(s, "two", NULL, two);
	struct store_layer left;
	struct store_swept swept;
	OWN(closep) int use = -1, adding = -1;

	make_layer(s, one);
	make_layer(s, two);
	make_layer(s, two);
	CHECK_U64(count(s, "layers"), 2);
	put(s, "stray", stray);
	CHECK_OK(store_layer_begin(s, &left, NULL));
	close(left.fs);
	/* Nothing goes while somebody adds; and then only what no image needs. */
	adding = store_adding(s, NULL);
	CHECK_ERR(store_sweep(s, true, NULL, &swept, NULL), EBUSY);
	close(TAKE_FD(adding));
	CHECK_OK(store_sweep(s, false, NULL, &swept, NULL));
	CHECK(swept.blobs == 1 && swept.layers == 0 && swept.leftovers == 1 && swept.bytes == 5);
	/* A cell runs the image without a name. */
	CHECK_OK(store_use(s, b.digest, &use, NULL));
	CHECK(store_is_used(s, b.digest) && !store_is_used(s, a.digest));
	CHECK_ERR(store_drop(s, b.digest, NULL), EBUSY);
	CHECK_OK(store_sweep(s, true, NULL, &swept, NULL));
	CHECK(swept.blobs == 0 && swept.layers == 0 && store_has_layer(s, two));
	/* Dropped by name while it runs: its files stay as long. */
	close(TAKE_FD(use));
	CHECK_OK(store_drop(s, b.digest, NULL));
	CHECK_OK(store_use(s, b.digest, &use, NULL));
	CHECK_OK(store_sweep(s, true, NULL, &swept, NULL));
	CHECK(swept.blobs == 0 && store_has_layer(s, two));
	close(TAKE_FD(use));
	CHECK_OK(store_sweep(s, true, NULL, &swept, NULL));
	CHECK(swept.blobs == 3 && swept.layers == 1 && !store_has_layer(s, two) && store_has_layer(s, one));
	CHECK_U64(count(s, "uses"), 0);
	CHECK_U64(count(s, "layers"), 1);
}
