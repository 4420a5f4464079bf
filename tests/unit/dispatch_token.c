/* dispatch_token.c - tests of what lets an agent in a cell dispatch others: its token, its rule. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "canon/canon.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy_yaml.h"
#include "store/db.h"
#include "registry/object.h"
#include "registry/registry.h"
#include "test.h"

/* ---- tokens ---- */

static struct registry *
open_registry(void)
{
	static const char text[] = "{\"name\":\"a\",\"command\":[\"true\"],\"delegate\":{\"agents\":"
		"[\"a\"],\"depth\":2,\"fan_out\":8}}";
	OWN(json_decrefp) json_t *said = NULL;
	OWN(object_freep) struct object *object = NULL;
	struct registry *reg = NULL;
	struct registry_version version;
	char pointer[OBJECT_POINTER_MAX];
	bool created;

	setenv("CLOISTER_DATA_DIR", test_dir(), 1);
	CHECK_OK(registry_open(true, &reg, NULL));
	CHECK_OK(canon_read(text, strlen(text), &said, NULL));
	CHECK_OK(object_read_json(reg, REGISTRY_AGENT, said, &object, pointer, NULL));
	CHECK_OK(registry_put(reg, object, NULL, &version, &created, NULL));
	return reg;
}

/* A dispatch that has begun. */
static void
begin(struct registry *reg, struct dispatch *ret_d)
{
	const struct dispatch_request request = { .agent = "a" };
	char id[DISPATCH_ID_LEN + 1];
	uint64_t wait;
	bool created;

	CHECK_OK(dispatch_submit(reg, &request, id, &created, NULL));
	CHECK(dispatch_begin(registry_db(reg), id, "abcdefgh", 8, &wait, NULL) == 1);
	CHECK_OK(dispatch_get(reg, id, ret_d, NULL));
}

static int
find(struct registry *reg, const char *token, char ret_id[DISPATCH_ID_LEN + 1])
{
	OWN(dispatch_free) struct dispatch d = {0};
	OWN(json_decrefp) json_t *resolved = NULL;
	int r = dispatch_token_find(reg, token, &d, &resolved, NULL);

	snprintf(ret_id, DISPATCH_ID_LEN + 1, "%s", r == 0 ? d.id : "");
	CHECK((r == 0) == json_is_object(json_object_get(resolved, "delegate")));
	return r;
}

TEST(dispatch_token_is_its_dispatch_s)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	OWN(dispatch_free) struct dispatch one = {0}, other = {0};
	char token[DISPATCH_TOKEN_MAX], second[DISPATCH_TOKEN_MAX], wrong[DISPATCH_TOKEN_MAX + 1];
	char id[DISPATCH_ID_LEN + 1];

	begin(reg, &one);
	begin(reg, &other);
	/* Before there is any, nothing is one. */
	snprintf(wrong, sizeof(wrong), "%s.", one.id);
	CHECK(find(reg, wrong, id) == -EACCES && find(reg, one.id, id) == -EACCES);
	CHECK_OK(dispatch_token_mint(registry_db(reg), &one, token, NULL));
	CHECK_OK(dispatch_token_mint(registry_db(reg), &other, second, NULL));
	CHECK_OK(find(reg, token, id));
	CHECK(strcmp(id, one.id) == 0);
	CHECK_OK(find(reg, second, id));
	CHECK(strcmp(id, other.id) == 0);
	/* The one's secret with the other's name. */
	snprintf(wrong, sizeof(wrong), "%s%s", other.id, token + DISPATCH_ID_LEN);
	CHECK(find(reg, wrong, id) == -EACCES);
	snprintf(wrong, sizeof(wrong), "%s0", token);
	CHECK(find(reg, wrong, id) == -EACCES);
	snprintf(wrong, sizeof(wrong), "%.*s", (int)strlen(token) - 1, token);
	CHECK(find(reg, wrong, id) == -EACCES);
	CHECK(find(reg, "", id) == -EACCES && find(reg, ".", id) == -EACCES);
}

static bool
lives(struct registry *reg, const char *token)
{
	char id[DISPATCH_ID_LEN + 1];

	return find(reg, token, id) == 0;
}

TEST(dispatch_token_lives_while_the_agent_runs)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	const struct dispatch_ending end = { .state = DISPATCH_FINISHED, .reason = "" };
	struct db *db = registry_db(reg);
	OWN(dispatch_free) struct dispatch d = {0};
	char token[DISPATCH_TOKEN_MAX], later[DISPATCH_TOKEN_MAX];
	uint64_t wait;

	begin(reg, &d);
	CHECK_OK(dispatch_token_mint(db, &d, token, NULL));
	CHECK_OK(dispatch_set_running(db, d.id, NULL));
	CHECK(lives(reg, token));
	/* A new one takes its place. */
	CHECK_OK(dispatch_token_mint(db, &d, later, NULL));
	CHECK(!lives(reg, token) && lives(reg, later));
	CHECK_OK(dispatch_token_drop(db, d.id, NULL));
	CHECK(!lives(reg, later));
	/* Between two attempts, and in the next one, there is none. */
	CHECK_OK(dispatch_token_mint(db, &d, token, NULL));
	CHECK_OK(dispatch_requeue(db, d.id, 0, NULL));
	CHECK(!lives(reg, token));
	CHECK(dispatch_token_mint(db, &d, later, NULL) == -ESTALE);
	CHECK(dispatch_begin(db, d.id, "abcdefgi", 8, &wait, NULL) == 1);
	CHECK(!lives(reg, token));
	CHECK_OK(dispatch_token_mint(db, &d, token, NULL));
	CHECK_OK(dispatch_set_end(db, d.id, &end, NULL));
	CHECK(!lives(reg, token));
}

/* ---- the rule ---- */

#define RULE "{\"allow\":\"host.cloister.internal:8931\",\"paths\":[\"/mcp\"]}"

static const struct {
	const char *document, *want;            /* NULL: there is none */
} front_cases[] = {
	{ NULL, "{\"egress\":[" RULE "],\"version\":1}" },
	{ "{\"version\":1}", "{\"egress\":[" RULE "],\"version\":1}" },
	{ "{\"version\":1,\"egress\":[{\"deny\":\"host.cloister.internal\"}],\"limits\":{\"pids\":5}}",
	  "{\"egress\":[" RULE ",{\"deny\":\"host.cloister.internal\"}],\"limits\":{\"pids\":5},"
	  "\"version\":1}" },
	/* One that says the same says nothing any more, and would be an error. */
	{ "{\"version\":1,\"egress\":[{\"allow\":\"a.example\"}," RULE ",{\"allow\":\"b.example\"}]}",
	  "{\"egress\":[" RULE ",{\"allow\":\"a.example\"},{\"allow\":\"b.example\"}],\"version\":1}" },
};

TEST(dispatch_policy_front)
{
	for (size_t i = 0; i < ARRAY_LEN(front_cases); i++) {
		OWN(json_decrefp) json_t *document = NULL, *rule = NULL, *got = NULL;
		OWN(freep) char *text = NULL;
		const char *said = front_cases[i].document;
		size_t len;

		if (said != NULL)
			CHECK_OK(canon_read(said, strlen(said), &document, NULL));
		CHECK_OK(canon_read(RULE, strlen(RULE), &rule, NULL));
		CHECK_OK(dispatch_policy_front(document, rule, &got, NULL));
		CHECK_OK(canon_dump(got, 1 << 20, &text, &len, NULL));
		if (strcmp(text, front_cases[i].want) != 0)
			test_fail(__FILE__, __LINE__, "%s", text);
	}
}

/* ---- where the service is ---- */

TEST(dispatch_mcp_is_there_while_it_is_announced)
{
	OWN(registry_closep) struct registry *reg = open_registry();
	const struct dispatch_request request = { .agent = "a" };
	int fd = dispatch_mcp_announce(8931, NULL);

	CHECK(fd >= 0 && dispatch_mcp_last() == 8931);
	for (int there = 1; there >= 0; there--) {
		OWN(json_decrefp) json_t *resolved = NULL;
		const json_t *mcp;

		CHECK_OK(dispatch_resolve(reg, &request, &resolved, NULL));
		mcp = json_object_get(resolved, "mcp");
		CHECK(json_is_string(json_object_get(mcp, "url")) == (there == 1));
		CHECK(json_is_string(json_object_get(mcp, "reason")) == (there == 0));
		CHECK(json_is_object(json_object_get(resolved, "policy")) == (there == 1));
		close(fd);
	}
	CHECK(dispatch_mcp_last() == 8931);
}
