/* cell_doc.c - tests of cell/cell_doc. */
#include "cell/cell_doc.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "test.h"

#define BLOB "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
/* A document of MORE members, which must sort before "version" or follow it. */
#define DOC(more) "{\"command\":[\"sh\",\"\"]," more "\"version\":1}"

static const char everything[] =
	"{\"authorities\":\"-----BEGIN\",\"boundary\":\"namespace\",\"bundle\":{\"cwd\":\"/\",\"first_gid\":0,"
	"\"first_uid\":4294901759,\"gid\":65535,\"groups\":[1],\"layers\":[\"/l\"],\"metacopy\":true,\"readonly\":false,"
	"\"rlimits\":[{\"hard\":2,\"soft\":1,\"type\":\"RLIMIT_NOFILE\"}],\"scratches\":[\"/s\"],\"uid\":0},\"chain\":\"a/b\",\"command\":[\"sh\",\"\"],"
	"\"env\":[{\"name\":\"A\",\"value\":\"\"},{\"file\":\"/e\"}],"
	"\"grants\":[{\"access\":\"overlay\",\"host\":\"/w\",\"workspace\":true},"
	"{\"access\":\"ro\",\"cell\":\"/c\",\"host\":\"/h\"},{\"blob\":\"" BLOB "\",\"cell\":\"/b\"}],"
	"\"hostname\":\"h\",\"images\":\"digest\",\"input\":{\"blob\":\"" BLOB "\"},"
	"\"limits\":{\"cpus_milli\":10,\"disk\":65536,\"idle_pause_ms\":1,\"io\":4096,\"memory\":4194304,\"pids\":1,\"time_ms\":1,"
	"\"ttl_ms\":9007199254740991},\"policy\":{\"name\":\"p\",\"text\":\"\"},\"ports\":[{\"cell\":1},"
	"{\"cell\":65535,\"host\":1}],\"principal\":\"j\",\"profile\":\"nested\",\"root\":true,\"rootfs\":\"/r\","
	"\"runtime\":\"crun\",\"secrets\":[\"K@a.example\"],\"setups\":[\"/s\"],\"starts\":[{\"hashes\":[\"" BLOB "\"],"
	"\"start\":\"sh\"}],\"version\":1,\"waits\":true,"
	"\"within\":[{\"name\":\"q\",\"text\":\"x\"}]}";

static void
check_same(const char *given, const char *want)
{
	OWN(json_decrefp) json_t *doc = NULL;
	OWN(freep) char *text = NULL;
	struct err err = {0};
	size_t len = 0;

	CHECK_OK(cell_doc_read(given, strlen(given), &doc, &err));
	CHECK_OK(cell_doc_write(doc, &text, &len, &err));
	CHECK_STR(text, want);
	CHECK(len == strlen(want));
}

TEST(cell_doc_is_written_as_it_was)
{
	check_same(everything, everything);
	check_same(DOC(), DOC());
	check_same("{\"command\":[],\"version\":1}", "{\"command\":[],\"version\":1}");
	check_same(" {\"version\":1,\n\"command\" : [ \"sh\", \"\" ] }\n", DOC());
}

static const struct {
	const char *text, *why;         /* WHY is part of the sentence */
} refused[] = {
	{ "", "cannot be read" },
	{ DOC("\"bundle\":{\"cwd\":\"/\",\"layers\":[\"/l\"]},"), "cannot have 'bundle' without 'rootfs'" },
	{ DOC("\"bundle\":{\"cwd\":\"/\",\"layers\":[]},\"rootfs\":\"/r\","), "bundle.layers is empty" },
	{ DOC("\"bundle\":{\"cwd\":\"/\",\"layers\":[\"l\"]},\"rootfs\":\"/r\","), "must be an absolute path" },
	{ DOC("\"bundle\":{\"layers\":[\"/l\"]},\"rootfs\":\"/r\","), "needs 'cwd'" },
	{ DOC("\"bundle\":{\"cwd\":\"/\",\"layers\":[\"/l\"],\"uid\":65536},\"rootfs\":\"/r\","), "use 0 to 65535" },
	{ DOC("\"bundle\":{\"cwd\":\"/\",\"layers\":[\"/l\"],\"rlimits\":[{\"type\":\"RLIMIT_X\"}]},\"rootfs\":\"/r\","),
	  "RLIMIT_CPU" },
	{ "[]", "must be an object" },
	{ "{\"command\":[\"a\"]}", "needs 'version'" },
	{ "{\"version\":1}", "needs 'command'" },
	{ "{\"command\":\"sh\",\"version\":1}", "command must be a list" },
	{ "{\"command\":[1],\"version\":1}", "command[0] must be a string" },
	{ "{\"command\":[\"a\"],\"version\":2}", "version is 2: use 1" },
	{ "{\"command\":[\"a\"],\"version\":\"1\"}", "version must be a whole number" },
	{ "{\"command\":[\"a\"],\"version\":1,\"version\":1}",
	  "the key \"version\" is given twice: remove one" },
	{ "{\"command\":[\"a\\u0000b\"],\"version\":1}", "cannot be read" },
	{ DOC("\"Env\":[],"), "the cell document has no member 'Env': did you mean 'env'?" },
	{ DOC("\"nonsense\":[],"), "has no member 'nonsense': use authorities, boundary, bundle, caches, chain, command, env, grants, "
	  "hostname, image, images, input, limits, policy, ports, principal, profile, record, root, rootfs, runtime, secrets, setups, starts, states, "
	  "terminal, version, volumes, waits, within" },
	{ DOC("\"env\":[{\"name\":\"A\"}],"), "env[0] needs 'value'" },
	{ DOC("\"env\":[{\"value\":\"A\"}],"), "env[0] needs 'name' or 'file'" },
	{ DOC("\"env\":[{\"file\":\"/e\",\"name\":\"A\",\"value\":\"\"}],"), "cannot have both" },
	{ DOC("\"env\":[{\"file\":\"/e\",\"value\":\"\"}],"), "env[0] cannot have 'value' without 'name'" },
	{ DOC("\"env\":[{\"file\":\"e\"}],"), "env[0].file must be an absolute path" },
	{ DOC("\"grants\":[{\"host\":\"/h\"}],"), "grants[0] needs 'access'" },
	{ DOC("\"grants\":[{\"access\":\"rwx\",\"host\":\"/h\"}],"), "access must be overlay, ro or rw" },
	{ DOC("\"grants\":[{\"access\":\"rw\",\"blob\":\"" BLOB "\",\"cell\":\"/c\"}],"),
	  "cannot have 'access' without 'host'" },
	{ DOC("\"grants\":[{\"blob\":\"" BLOB "\"}],"), "grants[0] needs 'cell'" },
	{ DOC("\"grants\":[{\"blob\":\"sha256:0\",\"cell\":\"/c\"}],"), "blob must be sha256:" },
	{ DOC("\"grants\":[{\"access\":\"ro\",\"cell\":\"/c\",\"host\":\"/h\",\"workspace\":true}],"),
	  "cannot have both 'cell' and 'workspace'" },
	{ DOC("\"grants\":[{\"access\":\"ro\",\"host\":\"/h\",\"workspace\":1}],"), "must be true or false" },
	{ DOC("\"input\":{},"), "input needs 'host' or 'blob'" },
	{ DOC("\"limits\":{\"memory\":4194303},"), "limits.memory is 4194303" },
	{ DOC("\"limits\":{\"memory\":-1},"), "limits.memory is -1" },
	{ DOC("\"limits\":{\"pids\":1.5},"), "limits.pids must be a whole number" },
	{ DOC("\"limits\":{\"time\":1},"), "limits has no member 'time': did you mean 'time_ms'?" },
	{ DOC("\"policy\":{\"text\":\"\"},"), "policy needs 'name'" },
	{ DOC("\"ports\":[{\"host\":1}],"), "ports[0] needs 'cell'" },
	{ DOC("\"ports\":[{\"cell\":0}],"), "ports[0].cell is 0" },
	{ DOC("\"principal\":\"\","), "principal is empty" },
	{ DOC("\"profile\":\"x\","), "profile must be default or nested" },
	{ "{\"boundary\":\"\",\"command\":[\"a\"],\"version\":1}", "boundary is empty" },
	{ DOC("\"runtime\":\"crun\","), "cannot have 'runtime' without 'boundary'" },
	{ "{\"boundary\":\"oci\",\"command\":[\"a\"],\"runtime\":\"\",\"version\":1}", "runtime is empty" },
	{ DOC("\"rootfs\":\"r\","), "rootfs must be an absolute path" },
	{ DOC("\"hostname\":\"0123456789012345678901234567890123456789012345678901234567890123\","),
	  "hostname is longer than 63 bytes" },
	{ DOC("\"starts\":[{\"hashes\":[],\"start\":\"sh\"}],"), "starts[0].hashes is empty" },
	{ DOC("\"starts\":[{\"hashes\":[\"" BLOB "\",\"" BLOB "\",\"" BLOB "\"],\"start\":\"sh\"}],"),
	  "starts[0].hashes has more than 2 items" },
	{ DOC("\"starts\":[{\"hashes\":[\"" BLOB "\"]}],"), "starts[0] needs 'start'" },
	{ DOC("\"within\":[{},{},{},{},{},{},{},{}],"), "within has more than 7 items" },
};

TEST(cell_doc_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		json_t *doc = NULL;
		struct err err = {0};
		int r = cell_doc_read(refused[i].text, strlen(refused[i].text), &doc, &err);

		CHECK(r < 0 && doc == NULL);
		if (strstr(err.text, refused[i].why) == NULL)
			CHECK_STR(err.text, refused[i].why);
	}
}

TEST(cell_doc_has_a_limit)
{
	OWN(freep) char *text = malloc(CELL_DOC_MAX + 1);
	json_t *doc = NULL;

	memset(text, ' ', CELL_DOC_MAX + 1);
	CHECK(cell_doc_read(text, CELL_DOC_MAX + 1, &doc, NULL) == -EFBIG);
}
