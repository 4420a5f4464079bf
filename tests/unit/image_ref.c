/* image_ref.c - references to images. */
#include <errno.h>

#include "base/err.h"
#include "image/ref.h"
#include "test.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct {
	const char *text, *full, *registry, *repository, *tag, *digest;
} names[] = {
	{ "debian", "docker.io/library/debian:latest", "docker.io", "library/debian", "latest", "" },
	{ "debian:12", "docker.io/library/debian:12", "docker.io", "library/debian", "12", "" },
	{ "a/b", "docker.io/a/b:latest", "docker.io", "a/b", "latest", "" },
	{ "docker.io/debian", "docker.io/library/debian:latest", "docker.io", "library/debian", "latest", "" },
	{ "index.docker.io/a/b:x", "docker.io/a/b:x", "docker.io", "a/b", "x", "" },
	{ "localhost/a", "localhost/a:latest", "localhost", "a", "latest", "" },
	{ "localhost:5000/a/b:tag", "localhost:5000/a/b:tag", "localhost:5000", "a/b", "tag", "" },
	{ "[::1]:5000/a", "[::1]:5000/a:latest", "[::1]:5000", "a", "latest", "" },
	{ "ghcr.io/a/b/c_d__e--f.g:V1.0", "ghcr.io/a/b/c_d__e--f.g:V1.0", "ghcr.io", "a/b/c_d__e--f.g", "V1.0", "" },
	{ "Host/a", "Host/a:latest", "Host", "a", "latest", "" },
	{ "debian@" DIGEST, "docker.io/library/debian@" DIGEST, "docker.io", "library/debian", "", DIGEST },
	{ "debian:12@" DIGEST, "docker.io/library/debian:12@" DIGEST, "docker.io", "library/debian", "12", DIGEST },
	{ "127.0.0.1:5000/x", "127.0.0.1:5000/x:latest", "127.0.0.1:5000", "x", "latest", "" },
};

TEST(image_name_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct image_name n;

		CHECK_OK(image_name_parse(names[i].text, &n, NULL));
		CHECK_STR(n.full, names[i].full);
		CHECK_STR(n.registry, names[i].registry);
		CHECK_STR(n.repository, names[i].repository);
		CHECK_STR(n.tag, names[i].tag);
		CHECK_STR(n.digest, names[i].digest);
		/* A full name is its own full name. */
		CHECK_OK(image_name_parse(names[i].full, &n, NULL));
		CHECK_STR(n.full, names[i].full);
	}
}

static const char *const bad_names[] = {
	"", ":", "a:", "a:b:c", "A", "a//b", "/a", "a/", "a/../b", "a b", "a:-x", "a:.x", "..", ".", "a..b", "a___b", "a._b",
	"-a", "a-", "_a", "a@sha256:0", ("a@" DIGEST "0"), "a@md5:0", ("@" DIGEST), "host.example:/a", "host.example:x/a",
	"host.example:123456/a", "-h.example/a", "h..example/a", ".example/a", "[::1/a", "[]/a", "[::1]x/a", "h.example/",
	"http://h.example/a", "a\n", "a\x7f", "a:\xc3\xa9",
};

TEST(image_name_parse_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_names); i++) {
		struct err err = {0};
		struct image_name n = { .full = "untouched" };

		if (image_name_parse(bad_names[i], &n, &err) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' is a name: %s", bad_names[i], n.full);
		CHECK(err.text[0] != '\0');
		CHECK_STR(n.full, "untouched");
	}
}

TEST(image_name_parse_bounds)
{
	char text[IMAGE_REF_MAX + 2];
	struct image_name n;

	memset(text, 'a', sizeof(text));
	text[IMAGE_REPOSITORY_MAX - strlen(IMAGE_HUB_FOLDER)] = '\0';
	CHECK_OK(image_name_parse(text, &n, NULL));
	text[IMAGE_REPOSITORY_MAX - strlen(IMAGE_HUB_FOLDER)] = 'a';
	text[IMAGE_REPOSITORY_MAX - strlen(IMAGE_HUB_FOLDER) + 1] = '\0';
	CHECK_ERR(image_name_parse(text, &n, NULL), EINVAL);
	memset(text, 'a', sizeof(text));
	text[1] = ':';
	text[2 + IMAGE_TAG_MAX] = '\0';
	CHECK_OK(image_name_parse(text, &n, NULL));
	text[2 + IMAGE_TAG_MAX] = 'a';
	text[3 + IMAGE_TAG_MAX] = '\0';
	CHECK_ERR(image_name_parse(text, &n, NULL), EINVAL);
}

static const struct {
	const char *text;
	enum image_ref_kind kind;
	const char *path, *tag, *full;
} refs[] = {
	{ "debian:12", IMAGE_REF_REGISTRY, "", "", "docker.io/library/debian:12" },
	{ "docker://debian:12", IMAGE_REF_REGISTRY, "", "", "docker.io/library/debian:12" },
	{ "oci:dir", IMAGE_REF_OCI, "dir", "", "" },
	{ "oci:/a/b:tag", IMAGE_REF_OCI, "/a/b", "tag", "" },
	{ "oci:/a/b:docker.io/library/debian:12", IMAGE_REF_OCI, "/a/b", "docker.io/library/debian:12", "" },
	{ "oci-archive:f.tar", IMAGE_REF_OCI_ARCHIVE, "f.tar", "", "" },
	{ "oci-archive:f.tar:x", IMAGE_REF_OCI_ARCHIVE, "f.tar", "x", "" },
	{ "docker-archive:f.tar", IMAGE_REF_DOCKER_ARCHIVE, "f.tar", "", "" },
	{ "docker-archive:f.tar:a:b", IMAGE_REF_DOCKER_ARCHIVE, "f.tar", "a:b", "docker.io/library/a:b" },
	{ "docker-daemon:a:b", IMAGE_REF_DOCKER_DAEMON, "", "a:b", "docker.io/library/a:b" },
	{ "containers-storage:localhost/a", IMAGE_REF_CONTAINERS_STORAGE, "", "localhost/a", "localhost/a:latest" },
	{ "dir:/a:b", IMAGE_REF_DIR, "/a:b", "", "" },
	{ "minimal:", IMAGE_REF_MINIMAL, "", "", IMAGE_MINIMAL },
};

TEST(image_ref_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		struct image_ref ref;

		CHECK_OK(image_ref_parse(refs[i].text, &ref, NULL));
		CHECK(ref.kind == refs[i].kind);
		CHECK_STR(ref.path, refs[i].path);
		CHECK_STR(ref.tag, refs[i].tag);
		CHECK_STR(ref.name.full, refs[i].full);
	}
}

TEST(image_ref_parse_refuses)
{
	static const char *const bad[] = { "", "oci:", "oci::x", "oci:a:", "dir:", "oci-archive:", "docker-archive:f:A",
		"docker-daemon:", "containers-storage:", "minimal:x", "docker://", "docker:a:b", "sha256:abcdef",
		"docker://sha256:abcdef0123" };
	char text[IMAGE_REF_MAX + 2];
	struct image_ref ref;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (image_ref_parse(bad[i], &ref, NULL) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' is a reference", bad[i]);
	memset(text, 'a', sizeof(text));
	memcpy(text, "dir:", 4);
	text[IMAGE_REF_MAX + 1] = '\0';
	CHECK_ERR(image_ref_parse(text, &ref, NULL), EINVAL);
	text[IMAGE_REF_MAX] = '\0';
	CHECK_OK(image_ref_parse(text, &ref, NULL));
}

TEST(image_ref_is_digest)
{
	static const char *const digests[] = { "sha256:abcdef", "sha256:0123456789" };
	static const char *const others[] = { "", "abcdef", "sha256:", "sha256:abcde", "sha256:abcdeg", "sha256:ABCDEF",
		"a@sha256:abcdef", "sha256:abcdef ", "sha512:abcdef",
		"sha256:00000000000000000000000000000000000000000000000000000000000000000" };

	for (size_t i = 0; i < ARRAY_LEN(digests); i++)
		CHECK(image_ref_is_digest(digests[i]));
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		CHECK(!image_ref_is_digest(others[i]));
}
