/* registry_object.c - tests of the reader of objects: what is taken, what is refused and where. */
#include "registry/object.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "canon/canon.h"
#include "test.h"

static int
read_text(struct registry *r, enum registry_kind kind, const char *text, struct object **ret_object,
          char pointer[OBJECT_POINTER_MAX], struct err *err)
{
	OWN(json_decrefp) json_t *said = NULL;

	CHECK_OK(canon_read(text, strlen(text), &said, err));
	return object_read_json(r, kind, said, ret_object, pointer, err);
}

/* ---- JSON ---- */

#define AGENT(more) "{\"name\":\"a\",\"command\":[\"x\"]" more "}"

static const struct {
	enum registry_kind kind;
	const char *text, *want;        /* the canonical form */
} taken[] = {
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"B\":\"\",\"A\":\"1\\n2\"}}",
	  "{\"kind\":\"env\",\"name\":\"e\",\"values\":{\"A\":\"1\\n2\",\"B\":\"\"},\"version\":1}" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{},\"kind\":\"env\",\"version\":1}",
	  "{\"kind\":\"env\",\"name\":\"e\",\"values\":{},\"version\":1}" },
	{ REGISTRY_AGENT, AGENT(""),
	  "{\"boundary\":null,\"capabilities\":[],\"command\":[\"x\"],\"delegate\":null,"
	  "\"description\":\"\",\"env\":[],\"grantable\":null,\"kind\":\"agent\",\"limits\":{},\"name\":\"a\",\"policy\":null,\"root\":null,\"runtime\":null,"
	  "\"sandbox\":false,\"secrets\":[],\"state\":\"none\",\"version\":1,\"workspace\":null}" },
	{ REGISTRY_AGENT, AGENT(",\"limits\":{\"cpus\":1.5,\"memory\":\"2G\"},\"secrets\":[\"A\",\"b/c=D\"],"
	                        "\"delegate\":{\"agents\":[\"b\"],\"fan_out\":3},"
	                        "\"workspace\":{\"path\":\"/srv/x\"},\"policy\":\"p\",\"state\":\"keep\",\"sandbox\":true,\"terminal\":true,\"record\":\"full\",\"boundary\":[\"strongest\",\"namespace\"]"),
	  "{\"boundary\":\"strongest,namespace\",\"capabilities\":[],\"command\":[\"x\"],\"delegate\":"
	  "{\"agents\":[\"b\"],\"depth\":1,\"fan_out\":3},\"description\":\"\",\"env\":[],\"grantable\":null,"
	  "\"kind\":\"agent\",\"limits\":{\"cpus\":\"1.5\",\"memory\":\"2G\"},\"name\":\"a\",\"policy\":\"p\",\"record\":\"full\",\"root\":null,\"runtime\":null,"
	  "\"sandbox\":true,\"secrets\":[\"A\",\"b/c=D\"],\"state\":\"keep\",\"terminal\":true,\"version\":1,"
	  "\"workspace\":{\"mode\":\"overlay\",\"path\":\"/srv/x\"}}" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"rules\":[{\"allow\":\"a.example\",\"headers\":"
	  "{\"x-a\":{\"absent\":true},\"x-b\":\"absent\"}}]}",
	  "{\"description\":\"\",\"files\":[],\"kind\":\"capability\",\"limits\":{},\"name\":\"c\",\"rules\":"
	  "[{\"allow\":\"a.example\",\"headers\":{\"x-a\":{\"absent\":true},\"x-b\":\"absent\"}}],"
	  "\"secrets\":[],\"setup\":false,\"tools\":[],\"version\":1}" },
	{ REGISTRY_POLICY, "{\"name\":\"p\",\"document\":{\"version\":1,\"limits\":{\"pids\":5},\"egress\":"
	  "[{\"allow\":\"a.example\",\"ports\":443}]}}",
	  "{\"document\":{\"egress\":[{\"allow\":\"a.example\",\"ports\":443}],\"limits\":{\"pids\":\"5\"},"
	  "\"version\":1},\"kind\":\"policy\",\"name\":\"p\",\"version\":1}" },
};

TEST(object_takes_json)
{
	for (size_t i = 0; i < ARRAY_LEN(taken); i++) {
		OWN(object_freep) struct object *o = NULL;
		char pointer[OBJECT_POINTER_MAX];
		struct err err = {0};

		if (read_text(NULL, taken[i].kind, taken[i].text, &o, pointer, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s: %s", taken[i].text, pointer, err.text);
		CHECK_STR(o->text, taken[i].want);
		CHECK(o->len == strlen(o->text) && o->kind == taken[i].kind);
	}
}

static const struct {
	enum registry_kind kind;
	const char *text, *pointer, *part;      /* of the message */
} refused[] = {
	{ REGISTRY_ENV, "[]", "", "map" },
	{ REGISTRY_ENV, "{\"values\":{}}", "", "`name`" },
	{ REGISTRY_ENV, "{\"name\":5,\"values\":{}}", "/name", "text" },
	{ REGISTRY_ENV, "{\"name\":\"../x\",\"values\":{}}", "/name", "cannot be a name" },
	{ REGISTRY_ENV, "{\"name\":\"A\",\"values\":{}}", "/name", "cannot be a name" },
	{ REGISTRY_ENV, "{\"name\":\"e\"}", "", "`values`" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":[]}", "/values", "map" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"A\":1}}", "/values/A", "quotes" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"A\":null}}", "/values/A", "missing" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"A=B\":\"\"}}", "/values/A=B", "variable" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"A/~\":\"\"}}", "/values/A~1~0", "variable" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{\"A\":\"\\u001b[2J\"}}", "/values/A", "control" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"vlaues\":{}}", "/vlaues", "values" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{},\"kind\":\"agent\"}", "/kind", "'env'" },
	{ REGISTRY_ENV, "{\"name\":\"e\",\"values\":{},\"version\":2}", "/version", "1" },
	{ REGISTRY_AGENT, "{\"name\":\"a\",\"command\":\"x\"}", "/command", "" },
	{ REGISTRY_AGENT, "{\"name\":\"a\",\"command\":\"x\"}", "/command", "list" },
	{ REGISTRY_AGENT, "{\"name\":\"a\",\"command\":[\"x\",[\"y\"]]}", "/command/1", "text" },
	{ REGISTRY_AGENT, "{\"name\":\"a\",\"command\":[\"\"]}", "/command/0", "program" },
	{ REGISTRY_AGENT, AGENT(",\"capabilities\":[\"b\",\"b\"]"), "/capabilities/1", "twice" },
	{ REGISTRY_AGENT, AGENT(",\"capabilities\":[\"b@sha256:01234567\"]"), "/capabilities/0", "short" },
	{ REGISTRY_AGENT, AGENT(",\"policy\":\"P\""), "/policy", "name" },
	{ REGISTRY_AGENT, AGENT(",\"secrets\":[\"A\",\"A\"]"), "/secrets/1", "twice" },
	{ REGISTRY_AGENT, AGENT(",\"secrets\":[\"a b\"]"), "/secrets/0", "secret" },
	{ REGISTRY_AGENT, AGENT(",\"secrets\":{\"A\":{\"hosts\":\"a\"}}"), "/secrets", "list" },
	{ REGISTRY_AGENT, AGENT(",\"limits\":{\"memory\":\"much\"}"), "/limits/memory", "" },
	{ REGISTRY_AGENT, AGENT(",\"limits\":{\"memroy\":\"2G\"}"), "/limits/memroy", "memory" },
	{ REGISTRY_AGENT, AGENT(",\"limits\":{\"pids\":0}"), "/limits/pids", "" },
	{ REGISTRY_AGENT, AGENT(",\"boundary\":\"none\""), "/boundary", "namespace" },
	{ REGISTRY_AGENT, AGENT(",\"boundary\":{}"), "/boundary", "name" },
	{ REGISTRY_AGENT, AGENT(",\"runtime\":\"crun\""), "/runtime", "needs the boundary" },
	{ REGISTRY_AGENT, AGENT(",\"boundary\":\"microvm\",\"runtime\":\"crun\""), "/runtime", "needs the boundary" },
	{ REGISTRY_AGENT, AGENT(",\"boundary\":\"oci\",\"runtime\":\"./crun\""), "/runtime", "absolute path" },
	{ REGISTRY_AGENT, AGENT(",\"state\":\"some\""), "/state", "keep" },
	{ REGISTRY_AGENT, AGENT(",\"rules\":[]"), "/rules", "" },
	{ REGISTRY_AGENT, AGENT(",\"workspace\":{\"path\":\"x\"}"), "/workspace/path", "'/'" },
	{ REGISTRY_AGENT, AGENT(",\"workspace\":{\"path\":\"/a/../b\"}"), "/workspace/path", "'..'" },
	{ REGISTRY_AGENT, AGENT(",\"workspace\":{\"path\":\"/\"}"), "/workspace/path", "" },
	{ REGISTRY_AGENT, AGENT(",\"workspace\":{\"path\":\"/a\",\"mode\":\"w\"}"), "/workspace/mode", "'rw'" },
	{ REGISTRY_AGENT, AGENT(",\"workspace\":{\"mode\":\"rw\"}"), "/workspace", "`path`" },
	{ REGISTRY_AGENT, AGENT(",\"delegate\":{\"agents\":[]}"), "/delegate", "agents" },
	{ REGISTRY_AGENT, AGENT(",\"delegate\":{\"agents\":[\"b\"],\"depth\":0}"), "/delegate/depth", "1 to" },
	{ REGISTRY_AGENT, AGENT(",\"delegate\":{\"agents\":[\"b\"],\"depth\":\"x\"}"), "/delegate/depth", "1 to" },
	{ REGISTRY_AGENT, AGENT(",\"delegate\":{\"agents\":[\"b\"],\"width\":1}"), "/delegate/width", "" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"rules\":[{\"allow\":\"a\",\"metods\":[]}]}",
	  "/rules/0/metods", "methods" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"rules\":{}}", "/rules", "list" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"rules\":[{\"include\":\"/etc/passwd\"}]}",
	  "/rules/0/include", "file" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"rules\":[{\"allow\":\"a.b\"},{\"deny\":\"a.b\"}]}",
	  "/rules/1", "/rules/0" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"tools\":[\"\"]}", "/tools/0", "tool" },
	{ REGISTRY_CAPABILITY, "{\"name\":\"c\",\"setup\":true}", "/setup", "" },
	{ REGISTRY_POLICY, "{\"name\":\"p\"}", "", "`document`" },
	{ REGISTRY_POLICY, "{\"name\":\"p\",\"document\":{}}", "/document", "version: 1" },
	{ REGISTRY_POLICY, "{\"name\":\"p\",\"document\":{\"version\":1,\"egress\":[{\"allow\":[5.5]}]}}",
	  "/document/egress/0/allow/0", "" },
	{ REGISTRY_POLICY, "{\"name\":\"p\",\"document\":{\"version\":1,\"secrets\":{\"A\":"
	  "{\"hosts\":\"a.b\",\"from\":\"cmd:x\"}}}}", "/document/secrets/A/from", "program" },
};

TEST(object_refuses_json)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		char pointer[OBJECT_POINTER_MAX] = "?";
		struct object *o = NULL;
		struct err err = {0};

		if (read_text(NULL, refused[i].kind, refused[i].text, &o, pointer, &err) >= 0)
			test_fail(__FILE__, __LINE__, "taken: %s", refused[i].text);
		if (strcmp(pointer, refused[i].pointer) != 0 || strstr(err.text, refused[i].part) == NULL ||
		    strstr(err.text, "json:") != NULL || err.text[0] == '\0')
			test_fail(__FILE__, __LINE__, "%s: at '%s': %s", refused[i].text, pointer, err.text);
		CHECK(o == NULL && err.code > 0);
	}
}

/* ---- a capability's files, as JSON ---- */

static const struct {
	const char *files, *pointer, *part;
} no_files[] = {
	{ "{}", "/files", "list" },
	{ "[1]", "/files/0", "object" },
	{ "[{\"content\":\"\"}]", "/files/0", "'path'" },
	{ "[{\"path\":\"a\"}]", "/files/0", "either" },
	{ "[{\"path\":\"a\",\"content\":\"\",\"content_base64\":\"\"}]", "/files/0", "either" },
	{ "[{\"path\":\"a\",\"content\":1}]", "/files/0/content", "text" },
	{ "[{\"path\":\"a\",\"content\":\"\",\"executable\":1}]", "/files/0/executable", "true" },
	{ "[{\"path\":\"a\",\"content\":\"\",\"mode\":\"0755\"}]", "/files/0", "nothing else" },
	{ "[{\"path\":\"a\",\"content_base64\":\"A\"}]", "/files/0/content_base64", "base64" },
	{ "[{\"path\":\"a\",\"content_base64\":\"AA==\\n\"}]", "/files/0/content_base64", "base64" },
	{ "[{\"path\":\"b\",\"content\":\"\"},{\"path\":\"../a\",\"content\":\"\"}]", "/files/1/path", "leads out" },
	{ "[{\"path\":\"/a\",\"content\":\"\"}]", "/files/0/path", "leads out" },
	{ "[{\"path\":\"\",\"content\":\"\"}]", "/files/0/path", "leads out" },
	{ "[{\"path\":\"a/\",\"content\":\"\"}]", "/files/0/path", "leads out" },
	{ "[{\"path\":\"a//b\",\"content\":\"\"}]", "/files/0/path", "leads out" },
	{ "[{\"path\":\"a/./b\",\"content\":\"\"}]", "/files/0/path", "leads out" },
	{ "[{\"path\":\"a\\u001bb\",\"content\":\"\"}]", "/files/0/path", "control" },
	{ "[{\"path\":\"capability.yaml\",\"content\":\"\"}]", "/files/0/path", "members" },
	{ "[{\"path\":\"a\",\"content\":\"\"},{\"path\":\"a\",\"content\":\"\"}]", "/files", "twice" },
	{ "[{\"path\":\"a\",\"content\":\"\"},{\"path\":\"a-\",\"content\":\"\"},{\"path\":\"a/b/c\",\"content\":\"\"}]",
	  "/files", "both a file and the folder" },
};

TEST(object_refuses_files)
{
	OWN(registry_closep) struct registry *r = NULL;

	setenv("CLOISTER_DATA_DIR", test_dir(), 1);
	CHECK_OK(registry_open(true, &r, NULL));
	for (size_t i = 0; i < ARRAY_LEN(no_files); i++) {
		OWN(freep) char *text = str_format("{\"name\":\"c\",\"files\":%s}", no_files[i].files);
		char pointer[OBJECT_POINTER_MAX];
		struct object *o = NULL;
		struct err err = {0};

		if (read_text(r, REGISTRY_CAPABILITY, text, &o, pointer, &err) >= 0)
			test_fail(__FILE__, __LINE__, "taken: %s", text);
		if (strcmp(pointer, no_files[i].pointer) != 0 || strstr(err.text, no_files[i].part) == NULL)
			test_fail(__FILE__, __LINE__, "%s: at '%s': %s", text, pointer, err.text);
	}
}

/* ---- YAML ---- */

static const struct {
	enum registry_kind kind;
	const char *text, *want;        /* the hash of the same in JSON, or the message */
	bool ok;
} yaml_cases[] = {
	{ REGISTRY_ENV, "name: e\nvalues: {A: 1.10, B: true, C: 'x'}\n",
	  "{\"name\":\"e\",\"values\":{\"A\":\"1.10\",\"B\":\"true\",\"C\":\"x\"}}", true },
	{ REGISTRY_AGENT, "name: a\ncommand: [x, 30]\nlimits: {cpus: 2}\n",
	  "{\"name\":\"a\",\"command\":[\"x\",\"30\"],\"limits\":{\"cpus\":\"2\"}}", true },
	{ REGISTRY_ENV, "name: e\nname: f\nvalues: {}\n", "f:2:1: ", false },
	{ REGISTRY_ENV, "name: e\nvalues:\n  A: ~\n", "f:3:6: ", false },
	{ REGISTRY_ENV, "name: e\nvalues: {A: [1]}\n", "f:2:13: ", false },
	{ REGISTRY_ENV, "name: e\nvalues: &a {}\n", "f:2:9: ", false },
	{ REGISTRY_ENV, "", "f:1:1: ", false },
	{ REGISTRY_ENV, "- x\n", "f:1:1: ", false },
	{ REGISTRY_AGENT, "name: a\ncommand: [x]\nsecrets:\n- A\n- b c\n", "f:5:3: ", false },
	{ REGISTRY_AGENT, "name: a\ncommand: [x]\nlimits:\n  time: never\n", "f:4:9: ", false },
};

TEST(object_reads_yaml)
{
	CHECK_OK(chdir(test_dir()));
	for (size_t i = 0; i < ARRAY_LEN(yaml_cases); i++) {
		OWN(object_freep) struct object *o = NULL, *same = NULL;
		char pointer[OBJECT_POINTER_MAX];
		struct err err = {0};
		int r;

		CHECK_OK(create_file_at(AT_FDCWD, "f", 0600, yaml_cases[i].text, NULL));
		r = object_read_file(yaml_cases[i].kind, "f", NULL, &o, &err);
		if ((r == 0) != yaml_cases[i].ok)
			test_fail(__FILE__, __LINE__, "%s: %s", yaml_cases[i].text, err.text);
		if (r < 0 && strncmp(err.text, yaml_cases[i].want, strlen(yaml_cases[i].want)) != 0)
			test_fail(__FILE__, __LINE__, "%s: %s", yaml_cases[i].text, err.text);
		if (r < 0)
			continue;
		CHECK_OK(read_text(NULL, yaml_cases[i].kind, yaml_cases[i].want, &same, pointer, NULL));
		CHECK_STR(o->text, same->text);
	}
}

/* A policy is kept as one document, and means the same. */
TEST(object_flattens_policies)
{
	OWN(object_freep) struct object *o = NULL;
	struct err err = {0};

	CHECK_OK(chdir(test_dir()));
	CHECK_OK(create_file_at(AT_FDCWD, "base.yaml", 0600, "version: 1\nlimits: {memory: 1G, pids: 9}\n"
	                        "secrets: [A=X, B]\nexfiltration: kill\negress:\n- deny: c.example\n", NULL));
	CHECK_OK(create_file_at(AT_FDCWD, "in.yaml", 0600, "version: 1\negress:\n- allow: b.example\n", NULL));
	CHECK_OK(create_file_at(AT_FDCWD, "web.yaml", 0600, "version: 1\nextends: base.yaml\n"
	                        "secrets: [A]\nlimits: {memory: 2G}\negress:\n- allow: a.example\n"
	                        "  query: {v: '1.10', t: absent}\n- include: in.yaml\n", NULL));
	if (object_read_file(REGISTRY_POLICY, "web.yaml", NULL, &o, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK_STR(o->text, "{\"document\":{\"egress\":[{\"allow\":\"a.example\",\"query\":{\"t\":{\"absent\":true},"
	          "\"v\":\"1.10\"}},{\"allow\":\"b.example\"},{\"deny\":\"c.example\"}],"
	          "\"exfiltration\":\"kill\",\"limits\":{\"memory\":\"2G\",\"pids\":\"9\"},"
	          "\"secrets\":[\"A\",\"B\"],\"version\":1},\"kind\":\"policy\",\"name\":\"web\",\"version\":1}");
}

static const struct {
	const char *text, *part;
} ambiguous[] = {
	{ "version: 1\negress:\n- allow: a.example\n  query: {v: 1.10}\n", ":4:14: is this the text '1.10'" },
	{ "version: 1\negress:\n- allow: a.example\n  query: {v: True}\n", ":4:14: is this the text 'True'" },
	{ "version: 1\nextends: p2.yaml\nsecrets: [A]\n", "a list of secrets" },
};

TEST(object_refuses_ambiguous_policies)
{
	CHECK_OK(chdir(test_dir()));
	CHECK_OK(create_file_at(AT_FDCWD, "p2.yaml", 0600, "version: 1\nsecrets: {B: {hosts: b.example}}\n",
	                        NULL));
	for (size_t i = 0; i < ARRAY_LEN(ambiguous); i++) {
		struct object *o = NULL;
		struct err err = {0};

		CHECK_OK(create_file_at(AT_FDCWD, "p.yaml", 0600, ambiguous[i].text, NULL));
		CHECK(object_read_file(REGISTRY_POLICY, "p.yaml", NULL, &o, &err) < 0);
		if (strstr(err.text, ambiguous[i].part) == NULL)
			test_fail(__FILE__, __LINE__, "%s", err.text);
	}
}
