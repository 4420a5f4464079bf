/* fleet_scale.c - tests of fleet/fleet_scale and fleet/fleet_plan. */
#include "fleet/fleet_scale.h"

#include <string.h>

#include "base/own.h"
#include "fleet/fleet.h"
#include "test.h"

static const struct {
	struct fleet_need need;
	unsigned want;
} want_cases[] = {
	/* waiting, taken, reserved, slots, min, max */
	{ { 0, 0, 0, 4, 0, 10 }, 0 },
	{ { 1, 0, 0, 4, 0, 10 }, 1 },
	{ { 4, 0, 0, 4, 0, 10 }, 1 },
	{ { 1, 4, 0, 4, 0, 10 }, 2 },
	{ { 20, 0, 0, 2, 0, 3 }, 3 },
	{ { 0, 0, 0, 1, 2, 3 }, 2 },
	{ { 0, 0, 1, 4, 0, 10 }, 1 },
	{ { 1, 3, 1, 4, 0, 10 }, 2 },
	{ { 0, 0, 4, 1, 2, 3 }, 3 },
	{ { 0, 0, UINT64_MAX / 4, 4, 0, 3 }, 3 },
	{ { UINT64_MAX / 2, UINT64_MAX / 2, 0, 1, 0, 1000 }, 1000 },
};

TEST(fleet_scale_want)
{
	for (size_t i = 0; i < ARRAY_LEN(want_cases); i++)
		CHECK_U64(fleet_scale_want(&want_cases[i].need), want_cases[i].want);
}

TEST(fleet_scale_pause)
{
	static const uint64_t want[] = { 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 300000, 300000 };

	for (unsigned i = 0; i < ARRAY_LEN(want); i++)
		CHECK_U64(fleet_scale_pause_ms(i + 1), want[i]);
	CHECK_U64(fleet_scale_pause_ms(1000000), FLEET_PAUSE_MAX_MS);
}

static const struct {
	const char *said, *shown;
} say_cases[] = {
	{ "no room", "no room" },
	{ "  a\n\n\tb\x1b[31m c \n", "a b [31m c" },
	{ "\xc3\xa9t\xc3\xa9", "t" },
	{ "", "" },
	{ "0123456789abcdefghijk", "0123456789abcde" },
};

TEST(fleet_say)
{
	char text[16];

	for (size_t i = 0; i < ARRAY_LEN(say_cases); i++)
		CHECK_STR(fleet_say(text, sizeof(text), say_cases[i].said), say_cases[i].shown);
}

static const char plain[] =
	"{\"name\":\"far\",\"engine\":\"docker\",\"pool\":\"p\",\"idle\":\"5m\",\"slots\":2,\"once\":false,\"image\":\"w:1\","
	"\"workers\":{\"min\":1,\"max\":3},\"env\":{\"A\":\"b\"},\"secrets\":{},\"cpus\":\"0.5\",\"memory\":\"1G\",\"docker\":{}}";

TEST(fleet_plan)
{
	OWN(fleet_plan_free) struct fleet_plan plan = {0};
	OWN(json_decrefp) json_t *env = NULL;
	struct fleet_job job = { .token = "secret" };
	const char *words[FLEET_WORDS_MAX];
	size_t n;

	CHECK(fleet_plan_read(plain, strlen(plain), "short", &plan, NULL) < 0);
	CHECK_OK(fleet_plan_read(plain, strlen(plain), "0123456789abcdef", &plan, NULL));
	CHECK_U64(plan.cpus, 500);
	CHECK_U64(plan.memory, UINT64_C(1) << 30);
	CHECK(plan.min == 1 && plan.max == 3 && plan.slots == 2 && plan.service == NULL);
	n = fleet_job_words(&plan, &job, words);
	for (size_t i = 0; i < n; i++)
		CHECK(strstr(words[i], "secret") == NULL);
	CHECK_STR(words[n - 1], "2");
	env = fleet_job_env(&plan, &job);
	CHECK_STR(json_string_value(json_object_get(env, "CLOISTER_JOIN")), "secret");
	CHECK_STR(json_string_value(json_object_get(env, "A")), "b");
	/* The plan's own stay as they are. */
	CHECK_U64(json_object_size(plan.env), 1);
}
