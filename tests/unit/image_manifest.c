/* image_manifest.c - the documents of images. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/manifest.h"
#include "test.h"

#define A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define CONFIG(type) "\"config\":{\"mediaType\":\"" type "\",\"digest\":\"" A "\",\"size\":7}"
#define LAYER "{\"mediaType\":\"" IMAGE_TYPE_OCI_LAYER_GZIP "\",\"digest\":\"" B "\",\"size\":9}"
#define OCI "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[" LAYER "]}"
#define DOCKER "{\"schemaVersion\":2,\"mediaType\":\"" IMAGE_TYPE_DOCKER_MANIFEST "\"," \
	CONFIG(IMAGE_TYPE_DOCKER_CONFIG) ",\"layers\":[" LAYER "," LAYER "]}"
#define ENTRY(os, arch) "{\"mediaType\":\"" IMAGE_TYPE_OCI_MANIFEST "\",\"digest\":\"" A \
	"\",\"size\":1,\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"}}"
#define INDEX(list) "{\"schemaVersion\":2,\"manifests\":[" list "]}"

TEST(image_manifest_parse)
{
	OWN(image_manifest_free) struct image_manifest oci = {0}, docker = {0};

	CHECK_OK(image_manifest_parse(OCI, strlen(OCI), &oci, NULL));
	CHECK_STR(oci.media_type, IMAGE_TYPE_OCI_MANIFEST);
	CHECK_STR(oci.config.digest, A);
	CHECK_U64(oci.n_layers, 1);
	CHECK_STR(oci.layers[0].digest, B);
	CHECK_U64(oci.layers[0].size, 9);
	CHECK_OK(image_manifest_parse(DOCKER, strlen(DOCKER), &docker, NULL));
	CHECK_STR(docker.media_type, IMAGE_TYPE_DOCKER_MANIFEST);
	CHECK_U64(docker.n_layers, 2);
}

static const struct {
	const char *text;
	int code;
} bad_manifests[] = {
	{ "", EINVAL },
	{ "[]", EBADMSG },
	{ "{}", ENOTSUP },
	{ "{\"schemaVersion\":1}", ENOTSUP },
	{ "{\"schemaVersion\":2}", EBADMSG },
	{ INDEX(""), EBADMSG },
	{ "{\"schemaVersion\":2,\"manifests\":[]," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[]}", EBADMSG },
	{ "{\"schemaVersion\":2,\"mediaType\":\"" IMAGE_TYPE_OCI_INDEX "\"," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[]}",
	  EBADMSG },
	{ "{\"schemaVersion\":2,\"mediaType\":\"text/plain\"," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[]}", ENOTSUP },
	{ "{\"schemaVersion\":2," CONFIG("application/vnd.oci.empty.v1+json") ",\"layers\":[]}", ENOTSUP },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) "}", EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":{}}", EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[7]}", EBADMSG },
	{ "{\"schemaVersion\":2,\"layers\":[" LAYER "]}", EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[{\"digest\":\"" B "\",\"size\":-1}]}", EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[{\"digest\":\"" B "\",\"size\":99999999999}]}",
	  EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[{\"digest\":\"" B "\"}]}", EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[{\"digest\":\"sha256:../../x\",\"size\":1}]}",
	  EBADMSG },
	{ "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[{\"digest\":\"sha512:00\",\"size\":1}]}", EBADMSG },
	{ "{\"schemaVersion\":2,\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[]}", EINVAL },
};

TEST(image_manifest_parse_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_manifests); i++) {
		struct image_manifest m = { .n_layers = 77 };
		struct err err = {0};
		int r = image_manifest_parse(bad_manifests[i].text, strlen(bad_manifests[i].text), &m, &err);

		if (r != -bad_manifests[i].code)
			test_fail(__FILE__, __LINE__, "%s is %d: %s", bad_manifests[i].text, r, err.text);
		CHECK(err.text[0] != '\0' && m.n_layers == 77);
	}
}

TEST(image_manifest_too_many_layers)
{
	OWN(buf_free) struct buf text = BUF(IMAGE_DOCUMENT_MAX);
	struct image_manifest m;

	buf_put_text(&text, "{\"schemaVersion\":2," CONFIG(IMAGE_TYPE_OCI_CONFIG) ",\"layers\":[" LAYER);
	for (int i = 0; i < IMAGE_LAYERS_MAX; i++)
		buf_put_text(&text, "," LAYER);
	buf_put_text(&text, "]}");
	CHECK(!buf_failed(&text));
	CHECK_ERR(image_manifest_parse((char *)text.data, text.len, &m, NULL), EBADMSG);
}

static const struct {
	const char *text, *type;
	int want;                       /* enum image_document, or -errno */
} kinds[] = {
	{ OCI, NULL, IMAGE_DOCUMENT_MANIFEST },
	{ OCI, IMAGE_TYPE_OCI_MANIFEST, IMAGE_DOCUMENT_MANIFEST },
	{ OCI, IMAGE_TYPE_OCI_INDEX, -EBADMSG },
	{ OCI, "text/plain", IMAGE_DOCUMENT_MANIFEST },
	{ INDEX(""), NULL, IMAGE_DOCUMENT_INDEX },
	{ INDEX(""), IMAGE_TYPE_DOCKER_LIST, IMAGE_DOCUMENT_INDEX },
	{ DOCKER, IMAGE_TYPE_DOCKER_MANIFEST, IMAGE_DOCUMENT_MANIFEST },
	{ "{}", NULL, -EBADMSG },
};

TEST(image_document_kind)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		enum image_document kind = IMAGE_DOCUMENT_INDEX;
		int r = image_document_kind(kinds[i].text, strlen(kinds[i].text), kinds[i].type, &kind, NULL);

		CHECK(r < 0 ? r == kinds[i].want : (int)kind == kinds[i].want);
	}
}

static const struct {
	const char *index, *architecture;
	int want;                       /* number in the index, or -errno */
} choices[] = {
	{ INDEX(ENTRY("linux", "arm64") "," ENTRY("linux", "amd64")), "amd64", 1 },
	{ INDEX(ENTRY("linux", "arm64") "," ENTRY("linux", "amd64")), "arm64", 0 },
	{ INDEX(ENTRY("unknown", "unknown") "," ENTRY("linux", "amd64")), "amd64", 1 },
	{ INDEX(ENTRY("windows", "amd64")), "amd64", -ENOENT },
	{ INDEX(""), "amd64", -ENOENT },
	{ INDEX("{\"mediaType\":\"x/y\",\"digest\":\"" A "\",\"size\":1}"), "amd64", -ENOENT },
	{ INDEX("{\"digest\":\"" A "\",\"size\":1}"), "amd64", 0 },
};

TEST(image_index_choose)
{
	for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
		OWN(image_index_free) struct image_index index = {0};
		const struct image_descriptor *chosen = NULL;
		struct err err = {0};
		int r;

		CHECK_OK(image_index_parse(choices[i].index, strlen(choices[i].index), &index, NULL));
		r = image_index_choose(&index, choices[i].architecture, &chosen, &err);
		CHECK(r < 0 ? r == choices[i].want : chosen == &index.list[choices[i].want]);
	}
}

TEST(image_config_parse)
{
	static const char text[] = "{\"os\":\"linux\",\"architecture\":\"amd64\",\"created\":\"now\",\"rootfs\":{\"type\":"
		"\"layers\",\"diff_ids\":[\"" A "\",\"" B "\"]},\"config\":{\"Env\":[\"A=b\"],\"Cmd\":null}}";
	OWN(image_config_free) struct image_config c = {0};
	OWN(image_manifest_free) struct image_manifest m = {0};

	CHECK_OK(image_config_parse(text, strlen(text), &c, NULL));
	CHECK_U64(c.n_diff_ids, 2);
	CHECK_STR(c.diff_ids[1], B);
	CHECK_STR(c.config, "{\"Cmd\":null,\"Env\":[\"A=b\"]}");
	CHECK_STR(c.created, "now");
	CHECK_OK(image_manifest_parse(OCI, strlen(OCI), &m, NULL));
	CHECK_ERR(image_config_check(&c, &m, NULL), EBADMSG);
}

TEST(image_config_parse_refuses)
{
	static const char *const bad[] = { "[]", "{}", "{\"rootfs\":7}", "{\"rootfs\":{\"diff_ids\":[7]}}",
		"{\"rootfs\":{\"diff_ids\":\"x\"}}", "{\"rootfs\":{\"diff_ids\":[\"sha256:..\"]}}",
		"{\"rootfs\":{},\"config\":[]}", "{\"rootfs\":{},\"os\":7}", "{\"rootfs\":{},\"os\":\"a\\u001b[0m\"}" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct image_config c;

		if (image_config_parse(bad[i], strlen(bad[i]), &c, NULL) >= 0)
			test_fail(__FILE__, __LINE__, "%s is a configuration", bad[i]);
	}
}

TEST(image_config_platform)
{
	struct image_config c = { .os = "linux" }, alien = { .architecture = "z80" }, window = { .os = "windows" };

	CHECK_OK(image_config_runs_here(&c, NULL));
	snprintf(c.architecture, sizeof(c.architecture), "%s", image_architecture());
	CHECK_OK(image_config_runs_here(&c, NULL));
	CHECK_ERR(image_config_runs_here(&alien, NULL), ENOEXEC);
	CHECK_ERR(image_config_runs_here(&window, NULL), ENOEXEC);
}
