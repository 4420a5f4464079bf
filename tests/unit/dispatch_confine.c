/* dispatch_confine.c - tests of dispatch/dispatch_confine and what it is made of. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "test.h"

/* JSON with ' in place of ". */
static json_t *
json(const char *text)
{
	OWN(freep) char *copy = strdup(text);
	json_t *value;

	for (char *c = copy; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	value = json_loads(copy, JSON_DECODE_ANY, NULL);
	if (value == NULL)
		test_fail(__FILE__, __LINE__, "%s", copy);
	return value;
}

static void
check_json(const json_t *got, const char *want)
{
	OWN(json_decrefp) json_t *wanted = json(want);
	OWN(freep) char *text = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);

	if (!json_equal(got, wanted))
		test_fail(__FILE__, __LINE__, "%s is not %s", text, want);
}

TEST(dispatch_limits_narrow)
{
	static const struct { const char *own, *outer; uint64_t left; const char *want; } cases[] = {
		{ "{}", "{}", UINT64_MAX, "{}" },
		{ "{'memory':'1G'}", "{'memory':'2G'}", UINT64_MAX, "{'memory':'1G'}" },
		{ "{'memory':'3G'}", "{'memory':'2G'}", UINT64_MAX, "{'memory':'2G'}" },
		{ "{}", "{'pids':'7'}", UINT64_MAX, "{'pids':'7'}" },
		{ "{}", "{'pids':'70000'}", UINT64_MAX, "{}" },
		{ "{'memory':'8G'}", "{}", UINT64_MAX, "{'memory':'4294967296'}" },
		{ "{'cpus':'64'}", "{'cpus':'0.5'}", UINT64_MAX, "{'cpus':'0.5'}" },
		{ "{'time':'2h'}", "{'time':'1h'}", 90000, "{'time':'90000ms'}" },
		{ "{'time':'30s'}", "{'time':'1h'}", 90000, "{'time':'30s'}" },
		{ "{}", "{}", 90000, "{'time':'90000ms'}" },
		{ "{'time':'2h'}", "{'time':'1h'}", UINT64_MAX, "{'time':'1h'}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(json_decrefp) json_t *own = json(cases[i].own), *outer = json(cases[i].outer);
		OWN(json_decrefp) json_t *got = NULL;

		CHECK_OK(dispatch_limits_narrow(own, outer, cases[i].left, &got, NULL));
		check_json(got, cases[i].want);
	}
}

#define POLICY "{'egress':[{'allow':'a.x','methods':['GET']},{'deny':'b.x'}],'limits':{'pids':9}," \
               "'secrets':['K=V'],'version':1}"

static int
read_policy(void *arg, const char *hash, char **ret_text, size_t *ret_len, struct err *err)
{
	(void)err;
	CHECK_STR(hash, "sha256:parent");
	*ret_text = strdup(arg);
	for (char *c = *ret_text; *c != '\0'; c++)
		*c = *c == '\'' ? '"' : *c;
	*ret_len = strlen(*ret_text);
	return 0;
}

/* AGENT is asked for by a parent with POLICY; what both say is put over what they are. */
static int
confine_within(char *policy, const char *parent_says, const char *child_says, const char *agent,
               struct dispatch_plan *plan, struct err *err)
{
	static char id[] = "0123456789abcdef", lead[] = "lead", hash[] = "sha256:parent";
	struct dispatch d = { .agent = lead, .policy_hash = hash, .started_ms = 1000, .attempts = 1 };
	OWN(json_decrefp) json_t *resolved = json(
		"{'secrets':['M'],'limits':{'time':'10s'},'workspace':null,'envs':[{'hash':'h','name':'e'}],"
		"'delegate':{'agents':['child','other@sha256:x'],'depth':2,'fan_out':3}}");
	OWN(json_decrefp) json_t *more = json(parent_says), *own = json(child_says);
	struct dispatch_parent parent = { .d = &d, .resolved = resolved, .chain = "lead/child",
		.n_children = 2, .now_ms = 4000, .read = read_policy, .arg = policy };
	struct dispatch_request request = { .agent = agent };

	memcpy(d.id, id, sizeof(d.id));
	json_object_update(resolved, more);
	parent.n_children = (unsigned)json_integer_value(json_object_get(more, "children"));
	request.n_envs = (size_t)json_integer_value(json_object_get(own, "n_envs"));
	plan->resolved = json("{'agent':{'hash':'sha256:y','name':'child'},'secrets':['K','L','M=N'],"
	                      "'limits':{},'workspace':null,'delegate':null,'principal':'',"
	                      "'policy':{'hash':'sha256:own'}}");
	json_object_update(plan->resolved, own);
	plan->policy = strdup("{\"egress\":[{\"allow\":\"a.x\"}],\"secrets\":{\"K\":null,\"Z\":null},\"version\":1}");
	plan->policy_len = strlen(plan->policy);
	return dispatch_confine(&parent, &request, plan, err);
}

static int
confine(const char *parent_says, const char *child_says, const char *agent, struct dispatch_plan *plan,
        struct err *err)
{
	static char policy[] = POLICY;

	return confine_within(policy, parent_says, child_says, agent, plan, err);
}

TEST(dispatch_confine)
{
	OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
	json_t *confined;

	CHECK_OK(confine("{}", "{'delegate':{'agents':['z'],'depth':9,'fan_out':1}}", "child", &plan, NULL));
	check_json(json_object_get(plan.resolved, "secrets"), "['K','M=N']");
	check_json(json_object_get(plan.resolved, "limits"), "{'time':'7000ms'}");
	check_json(json_object_get(plan.resolved, "deadline_ms"), "11000");
	check_json(json_object_get(plan.resolved, "delegate"), "{'agents':['z'],'depth':1,'fan_out':1}");
	CHECK_STR(plan.policy, "{\"egress\":[{\"allow\":\"a.x\"}],\"secrets\":{\"K\":null},\"version\":1}");
	/* What the parent is held to, with all secrets that it has, and without limits. */
	CHECK_STR(plan.outer, "{\"egress\":[{\"allow\":\"a.x\",\"methods\":[\"GET\"]},{\"deny\":\"b.x\"}],"
	          "\"secrets\":[\"K=V\",\"M\"],\"version\":1}");
	confined = json_object_get(plan.resolved, "confined");
	check_json(json_object_get(confined, "left_out"), "{'secrets':['L','Z']}");
	check_json(json_object_get(json_array_get(json_object_get(confined, "rules"), 0), "within"),
	           "[{'layer':1,'rule':'within-1-lead.json:1:12','text':'allow a.x methods [GET]','verdict':'allow'},"
	           "{'layer':1,'verdict':'deny'}]");
}

TEST(dispatch_confine_refuses)
{
	static const struct { const char *parent, *child, *agent, *why; } cases[] = {
		{ "{}", "{}", "child@sha256:y", "may not dispatch 'child@sha256:y'" },
		{ "{}", "{'agent':{'hash':'sha256:y','name':'other'}}", "other", "may not dispatch 'other'" },
		{ "{'children':3}", "{}", "child", "has dispatched 3 others" },
		{ "{'delegate':{'agents':['child'],'depth':0,'fan_out':3}}", "{}", "child", "as deep as" },
		{ "{'delegate':null}", "{}", "child", "may not dispatch 'child'" },
		{ "{'deadline_ms':4000}", "{}", "child", "no time left" },
		{ "{'limits':{'time':'3s'}}", "{}", "child", "no time left" },
		{ "{}", "{'envs':[{'hash':'i','name':'f'}],'n_envs':1}", "child", "the env 'f'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
		struct err err = {0};

		CHECK_ERR(confine(cases[i].parent, cases[i].child, cases[i].agent, &plan, &err), EPERM);
		if (strstr(err.text, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "%s", err.text);
	}
}

TEST(dispatch_confine_pins)
{
	OWN(dispatch_plan_free) struct dispatch_plan plan = {0};

	CHECK_OK(confine("{}", "{'agent':{'hash':'sha256:x','name':'other'}}", "other@sha256:x", &plan, NULL));
}

TEST(dispatch_confine_walls)
{
	static const struct { const char *parent, *child, *want; } cases[] = {
		{ "null", "null", "null" },
		{ "'microvm'", "null", "'microvm'" },
		{ "null", "'microvm'", "'microvm'" },
		{ "'microvm'", "'namespace'", "'microvm'" },
		{ "'namespace'", "'microvm'", "'microvm'" },
		{ "'strongest,namespace'", "'namespace'", "'strongest,namespace'" },
		{ "'microvm'", "'strongest,namespace'", "'strongest'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
		OWN(freep) char *parent = str_format("{'boundary':%s}", cases[i].parent);
		OWN(freep) char *child = str_format("{'boundary':%s}", cases[i].child);

		CHECK_OK(confine(parent, child, "child", &plan, NULL));
		check_json(json_object_get(plan.resolved, "boundary"), cases[i].want);
	}
}

TEST(dispatch_confine_runtimes)
{
	static const struct { const char *parent, *child, *want; } cases[] = {
		{ "'boundary':'oci','runtime':'crun'", "'boundary':null", "'crun'" },
		{ "'boundary':null", "'boundary':'oci','runtime':'crun'", "'crun'" },
		{ "'boundary':'oci','runtime':'crun'", "'boundary':'oci','runtime':'crun'", "'crun'" },
		{ "'boundary':'oci','runtime':'crun'", "'boundary':'microvm'", "null" },
		{ "'boundary':'microvm'", "'boundary':'oci','runtime':'crun'", "null" },
	};
	OWN(dispatch_plan_free) struct dispatch_plan other = {0};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
		OWN(freep) char *parent = str_format("{%s}", cases[i].parent), *child = str_format("{%s}", cases[i].child);

		CHECK_OK(confine(parent, child, "child", &plan, NULL));
		check_json(json_object_get(plan.resolved, "runtime"), cases[i].want);
	}
	CHECK(confine("{'boundary':'oci','runtime':'crun'}", "{'boundary':'oci','runtime':'runc'}", "child", &other, &err) == -EPERM);
	CHECK_STR(err.text, "a cell has one OCI runtime, and both 'runc' and 'crun' are demanded");
}

TEST(dispatch_confine_images)
{
	static const struct { const char *parent, *child, *want; } cases[] = {
		{ "null", "null", "null" },
		{ "'digest'", "null", "'digest'" },
		{ "null", "'digest'", "'digest'" },
		{ "'signature:/a'", "'digest;signature:/b'", "'digest;signature:/b;signature:/a'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
		OWN(freep) char *parent = str_format("{'images':%s}", cases[i].parent);
		OWN(freep) char *child = str_format("{'images':%s}", cases[i].child);

		CHECK_OK(confine(parent, child, "child", &plan, NULL));
		check_json(json_object_get(plan.resolved, "images"), cases[i].want);
	}
}

/* A child is held to the hosts that its parent's word names, as the parent is. */
TEST(dispatch_confine_hosts_of_secrets)
{
	static const struct { const char *policy, *words, *want; } cases[] = {
		{ "", "['M@a.x']", "['M@a.x']" },
		{ "", "['M=N:npmrc@a.x,b.x:8080']", "['M@a.x,b.x:8080']" },
		{ ",'secrets':['M','K']", "['M@a.x','K']", "['M@a.x','K']" },
		{ ",'secrets':['M@b.x']", "['M']", "['M@b.x']" },
		{ ",'secrets':{'M':null}", "['M@a.x,b.x','K']", "{'K':null,'M':{'hosts':['a.x','b.x']}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(dispatch_plan_free) struct dispatch_plan plan = {0};
		OWN(freep) char *policy = str_format("{'egress':[{'allow':'a.x'}]%s,'version':1}", cases[i].policy);
		OWN(freep) char *parent = str_format("{'secrets':%s}", cases[i].words);
		OWN(json_decrefp) json_t *outer = NULL;

		CHECK_OK(confine_within(policy, parent, "{}", "child", &plan, NULL));
		outer = json(plan.outer);
		check_json(json_object_get(outer, "secrets"), cases[i].want);
	}
}
