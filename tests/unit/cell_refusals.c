/* cell_refusals.c - tests of cell/cell_refusals. */
#include "cell/cell_refusals.h"

#include "test.h"

#define HTTP(verdict, more) "\"type\":\"http\",\"verdict\":\"" verdict "\"" more
#define POST ",\"method\":\"POST\",\"scheme\":\"https\",\"host\":\"a.example\",\"port\":443,"

static char *
told(const struct cell_refusals *refusals)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	CHECK(out != NULL);
	cell_refusals_print(out, refusals, "job");
	fclose(out);
	return text;
}

TEST(cell_refusals_of_one_event)
{
	static const struct {
		const char *members, *what, *why;       /* what NULL: not a refusal */
	} cases[] = {
		{ HTTP("deny", ",\"note\":\"no rule\"" POST "\"path\":\"/x\""),
		  "POST https://a.example/x", "no rule" },
		{ HTTP("ask", ",\"why\":\"ask\",\"rule\":\"c.yaml:5:5\",\"reason\":\"ask \\\"me\\\"\"" POST
		       "\"path\":\"/\""), "POST https://a.example/", "ask \"me\" (c.yaml:5:5)" },
		{ HTTP("deny", ",\"rule\":\"c.yaml:5:5\",\"logged\":[\"c.yaml:1:1\",\"]\"]" POST
		       "\"path\":\"/a\\u001bb\""), "POST https://a.example/a?b", " (c.yaml:5:5)" },
		{ HTTP("deny", ",\"method\":\"GET\",\"scheme\":\"http\",\"host\":\"h\",\"port\":8080,"
		       "\"query\":true,\"path\":\"/\""), "GET http://h:8080/", "" },
		{ "\"type\":\"dns\",\"verdict\":\"deny\",\"note\":\"no rule\",\"host\":\"b.example\"",
		  "name b.example", "no rule" },
		{ "\"type\":\"dns\",\"verdict\":\"deny\",\"why\":\"no-rule\",\"host\":\"b.example\"",
		  "name b.example", "no rule allows it" },
		{ "\"type\":\"tcp\",\"verdict\":\"deny\",\"note\":\"no rule\",\"host\":\"db\",\"port\":5432",
		  "tcp db:5432", "no rule" },
		{ HTTP("deny", ",\"why\":\"malformed\",\"host\":\"h\",\"port\":80,\"note\":\"two hosts\""),
		  "http h:80", "two hosts" },
		{ "\"type\":\"many\",\"verdict\":\"deny\",\"count\":7,\"note\":\"so many\"", "many", "so many" },
		{ HTTP("deny", ",\"why\":\"exfiltration\",\"rule\":\"c.yaml:5:5\",\"reason\":\"not there\"" POST
		       "\"path\":\"/\",\"note\":\"a placeholder\""), "POST https://a.example/",
		  "a placeholder (c.yaml:5:5)" },
		{ HTTP("allow", ",\"status\":403"), NULL, NULL },
		{ "\"verdict\":\"de", NULL, NULL },
		{ "\"note\":\"\\\"verdict\\\":\\\"deny\\\"\"", NULL, NULL },
		{ "\"logged\":[\"verdict\",\"deny\"", NULL, NULL },
		{ "", NULL, NULL },
		{ "\"\\", NULL, NULL },
		{ "\"a\":\"\\u12", NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cell_refusals refusals = {0};

		cell_refusals_note(&refusals, cases[i].members);
		CHECK_U64(refusals.n, cases[i].what != NULL);
		CHECK_STR(refusals.kinds[0].what, cases[i].what != NULL ? cases[i].what : "");
		CHECK_STR(refusals.kinds[0].why, cases[i].why != NULL ? cases[i].why : "");
	}
}

TEST(cell_refusals_are_added_up)
{
	struct cell_refusals refusals = {0};
	char members[256];
	OWN(freep) char *nothing = told(&refusals);
	OWN(freep) char *text = NULL;

	CHECK_STR(nothing, "");
	for (int i = 0; i < 3; i++)
		cell_refusals_note(&refusals, HTTP("deny", ",\"note\":\"no rule\"" POST "\"path\":\"/x\""));
	for (int i = 0; i < 10; i++) {
		snprintf(members, sizeof(members), "\"type\":\"dns\",\"verdict\":\"deny\",\"note\":"
		         "\"no rule\",\"host\":\"%d.example\"", i);
		cell_refusals_note(&refusals, members);
	}
	CHECK_U64(refusals.total, 13);
	CHECK_U64(refusals.n, CELL_REFUSALS_MAX);
	text = told(&refusals);
	CHECK(strstr(text, "cloister: refused 13 times:\n"
	             "cloister:   POST https://a.example/x (3 times)  no rule\n"
	             "cloister:   name 0.example  no rule\n") == text);
	CHECK(strstr(text, "name 4.example") != NULL && strstr(text, "name 5.example") == NULL);
	CHECK(strstr(text, "cloister:   and 5 more\ncloister: `cloister why job`") != NULL);
}

TEST(cell_refusals_cut_long_text)
{
	struct cell_refusals refusals = {0};
	char members[4096];

	snprintf(members, sizeof(members), HTTP("deny", POST "\"path\":\"/%03000d\""), 1);
	cell_refusals_note(&refusals, members);
	CHECK_U64(refusals.n, 1);
	CHECK(strlen(refusals.kinds[0].what) < CELL_REFUSAL_TEXT);
	CHECK(strstr(refusals.kinds[0].what, "0000...") != NULL);
}

TEST(cell_refusals_that_stand_for_many)
{
	struct cell_refusals refusals = {0};

	cell_refusals_note(&refusals, HTTP("deny", POST "\"path\":\"/\",\"count\":41"));
	cell_refusals_note(&refusals, HTTP("deny", POST "\"path\":\"/\""));
	/* Not a number that an event may have: it counts as one. */
	cell_refusals_note(&refusals, HTTP("deny", POST "\"path\":\"/\",\"count\":99999999999999999999"));
	CHECK_U64(refusals.total, 43);
	CHECK_U64(refusals.kinds[0].times, 43);
}

TEST(cell_refusals_count_failures)
{
	struct cell_refusals refusals = {0};
	OWN(freep) char *one = NULL;
	OWN(freep) char *both = NULL;

	cell_refusals_note(&refusals, HTTP("allow", POST "\"path\":\"/\",\"status\":502"));
	cell_refusals_note(&refusals, HTTP("allow", ",\"why\":\"learn\"" POST "\"path\":\"/\""));
	CHECK_U64(refusals.failed, 0);
	cell_refusals_note(&refusals, HTTP("allow", ",\"why\":\"unresolved\"" POST "\"path\":\"/\""));
	one = told(&refusals);
	CHECK_STR(one, "cloister: 1 request was allowed, and failed on the way\n"
	          "cloister: `cloister why job` explains the last one, `cloister events job` shows all\n");
	cell_refusals_note(&refusals, HTTP("allow", ",\"why\":\"unreachable\"" POST "\"path\":\"/\""));
	cell_refusals_note(&refusals, HTTP("deny", ",\"why\":\"no-rule\"" POST "\"path\":\"/\""));
	both = told(&refusals);
	CHECK(strstr(both, "cloister: refused 1 time:\n") == both);
	CHECK(strstr(both, "\ncloister: 2 requests were allowed, and failed on the way\ncloister: `") != NULL);
}
