/* audit_page.c - tests of audit/page and audit/tally. */
#include "audit/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/tally.h"
#include "base/err.h"
#include "base/own.h"
#include "test.h"

#define NAME "events.jsonl"
#define PREV "0000000000000000000000000000000000000000000000000000000000000000"

static void
put_line(char *line, size_t size, unsigned n, const char *event)
{
	snprintf(line, size, "{\"cell\":\"ab12cd34\",\"event\":{%s},\"n\":%u,\"prev\":\"" PREV "\",\"time\":"
	         "\"2026-11-15T16:%02u:%02u.000Z\"}", event, n, n / 60 % 60, n % 60);
}

/* Records FROM to TO in a file of their own, each with its number in it; every tenth is refused. */
static void
write_file(int dir, const char *name, unsigned from, unsigned to, const char *end)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	OWN(fclosep) FILE *out = fdopen(fd, "w");
	char line[2048], event[1024];

	for (unsigned n = from; n <= to; n++) {
		snprintf(event, sizeof(event), n % 10 == 0 ? "\"host\":\"no.example\",\"type\":\"dns\",\"verdict\":"
		         "\"deny\"" : "\"host\":\"h%u.example\",\"note\":\"%.*s\",\"path\":\"/say \\\"%u\\\"\",\"type\":"
		         "\"http\",\"verdict\":\"allow\"", n, (int)(n % 500), "x123456789012345678901234567890123456789012345678901234567890123456789", n);
		put_line(line, sizeof(line), n, event);
		fprintf(out, "%s\n", line);
	}
	fputs(end, out);
}

struct found {
	unsigned n, numbers[AUDIT_PAGE_MAX];
};

static int
take(void *arg, const char *line, size_t len)
{
	struct found *f = arg;

	f->numbers[f->n++] = (unsigned)audit_page_number(line, len);
	return 0;
}

static const struct {
	bool is_after;
	unsigned after, before;
	size_t limit;
	const char *types, *search;
	unsigned n, first, last;        /* what is found; FIRST is how it comes */
	bool more;
} cases[] = {
	{ false, 0,    0,    5,    NULL,  NULL,       5,   3000, 2996, true },
	{ false, 0,    2996, 5,    NULL,  NULL,       5,   2995, 2991, true },
	{ false, 0,    1,    5,    NULL,  NULL,       0,   0,    0,    false },
	{ false, 0,    4,    5,    NULL,  NULL,       3,   3,    1,    false },
	{ false, 0,    9999, 2,    NULL,  NULL,       2,   3000, 2999, true },
	{ false, 0,    1003, 4,    NULL,  NULL,       4,   1002, 999,  true },   /* over two files */
	{ true,  0,    0,    3,    NULL,  NULL,       3,   1,    3,    true },
	{ true,  2998, 0,    3,    NULL,  NULL,       2,   2999, 3000, false },
	{ true,  3000, 0,    3,    NULL,  NULL,       0,   0,    0,    false },
	{ true,  998,  0,    4,    NULL,  NULL,       4,   999,  1002, true },
	{ true,  10,   13,   9,    NULL,  NULL,       2,   11,   12,   false },
	{ false, 0,    0,    1000, "dns", NULL,       300, 3000, 10,   false },
	{ false, 0,    0,    1000, "dn",  NULL,       0,   0,    0,    false },
	{ false, 0,    0,    7,    "tcp,dns", NULL,   7,   3000, 2940, true },
	{ false, 0,    0,    1000, "refusal", NULL,   300, 3000, 10,   false },
	{ false, 0,    0,    9,    NULL,  "H17.EXAMPLE", 1, 17,  17,   false },
	{ false, 0,    0,    9,    NULL,  "say \"17\"", 1, 17,   17,   false },
	{ false, 0,    0,    9,    "dns", "h17.example", 0, 0,   0,    false },
	{ false, 0,    0,    9,    NULL,  "verdict",  0,   0,    0,    false },  /* a name, no value */
	{ false, 0,    0,    9,    NULL,  "ab12cd34", 0,   0,    0,    false },
	{ false, 0,    0,    9,    NULL,  "00000000", 0,   0,    0,    false },
};

TEST(audit_page)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	write_file(dir, NAME ".1", 1, 1000, "");
	write_file(dir, NAME ".2", 1001, 2000, "");
	write_file(dir, NAME, 2001, 3000, "{\"cell\":\"half a line");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct found found = {0};
		struct err err = {0};
		struct audit_page page = { .is_after = cases[i].is_after, .after = cases[i].after,
			.before = cases[i].before, .limit = cases[i].limit, .types = cases[i].types,
			.search = cases[i].search, .take = take, .arg = &found };

		CHECK_OK(audit_page_read(&page, dir, NAME, &err));
		if (page.n != cases[i].n || found.n != cases[i].n || page.more != cases[i].more ||
		    (found.n > 0 && (found.numbers[0] != cases[i].first ||
		                     found.numbers[found.n - 1] != cases[i].last)))
			test_fail(__FILE__, __LINE__, "case %zu: %u from %u to %u%s", i, found.n,
			          found.n > 0 ? found.numbers[0] : 0, found.n > 0 ? found.numbers[found.n - 1] : 0,
			          page.more ? ", and more" : "");
	}
}

TEST(audit_page_of_nothing)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct found found = {0};
	struct err err = {0};
	struct audit_page page = { .limit = 5, .take = take, .arg = &found };

	CHECK_ERR(audit_page_read(&page, dir, NAME, &err), ENOENT);
	write_file(dir, NAME, 1, 0, "");
	CHECK_OK(audit_page_read(&page, dir, NAME, &err));
	write_file(dir, NAME, 1, 0, "no newline");
	CHECK_OK(audit_page_read(&page, dir, NAME, &err));
	write_file(dir, NAME, 1, 0, "\n\nwhat is this\n{}\n");
	CHECK_OK(audit_page_read(&page, dir, NAME, &err));
	CHECK(found.n == 0 && !page.more);
	write_file(dir, NAME, 1, 1, "");
	CHECK_OK(audit_page_read(&page, dir, NAME, &err));
	CHECK(found.n == 1 && found.numbers[0] == 1);
}

static unsigned
tell(struct audit_tally *t, unsigned n, const char *event)
{
	char line[2048];

	put_line(line, sizeof(line), n, event);
	return audit_tally_line(t, line, strlen(line));
}

TEST(audit_tally)
{
	static struct audit_tally t;
	struct audit_slot slots[60];
	uint64_t step;
	size_t n;

	CHECK(tell(&t, 1, "\"type\":\"cell.boot\"") == 0);
	CHECK(tell(&t, 2, "\"received\":7,\"sent\":5,\"type\":\"http\",\"verdict\":\"allow\"") == 0);
	CHECK(tell(&t, 3, "\"host\":\"a.example\",\"type\":\"dns\",\"verdict\":\"deny\"") == AUDIT_WAS_REFUSAL);
	CHECK_STR(t.refusal.what, "name a.example");
	CHECK_STR(t.refusal.time, "2026-11-15T16:00:03.000Z");
	CHECK(tell(&t, 4, "\"count\":20,\"host\":\"b.example\",\"method\":\"GET\",\"path\":\"/x\",\"port\":443,"
	           "\"reason\":\"no\",\"scheme\":\"https\",\"type\":\"http\",\"verdict\":\"deny\"") == AUDIT_WAS_REFUSAL);
	CHECK_STR(t.refusal.what, "GET https://b.example/x");
	CHECK_STR(t.refusal.why, "no");
	CHECK(tell(&t, 5, "\"did\":\"frozen\",\"type\":\"cell\"") == AUDIT_WAS_CELL);
	CHECK(tell(&t, 5, "\"type\":\"http\",\"verdict\":\"allow\"") == 0);     /* again */
	CHECK(tell(&t, 6, "\"grant\":{\"type\":\"http\",\"verdict\":\"deny\"},\"type\":\"x\"") == 0);
	CHECK(audit_tally_line(&t, "{", 1) == 0 && audit_tally_line(&t, "", 0) == 0);
	CHECK(t.n == 6 && t.total.requests == 21 && t.total.refused == 21);
	CHECK(t.total.bytes_in == 7 && t.total.bytes_out == 5);
	/* An hour later: slots became longer, and nothing is lost. */
	CHECK(tell(&t, 3599, "\"received\":1,\"sent\":1,\"type\":\"http\",\"verdict\":\"allow\"") == 0);
	n = audit_tally_over_time(&t, t.since_s + 7200, 60, slots, &step);
	CHECK(n <= 60 && n * step >= 7200 && (n - 1) * step <= 7200);
	CHECK(slots[0].requests == 21 && slots[0].refused == 21 && slots[0].bytes_in == 7);
	CHECK(slots[3598 / step].requests == 1);
	n = audit_tally_over_time(&t, 0, 1, slots, &step);
	CHECK(n == 1 && slots[0].requests == 22);
}

TEST(audit_tally_of_placeholders)
{
	static struct audit_tally t;

	(void)tell(&t, 1, "\"host\":\"evil.example\",\"note\":\"on its way\",\"type\":\"http\",\"verdict\":\"deny\","
	           "\"why\":\"exfiltration\"");
	/* Only the event's own member counts, and only if it is true. */
	(void)tell(&t, 2, "\"host\":\"evil.example\",\"misplaced\":false,\"type\":\"http\",\"verdict\":\"deny\","
	           "\"why\":\"exfiltration\"");
	(void)tell(&t, 3, "\"host\":\"evil.example\",\"more\":{\"misplaced\":true},\"type\":\"http\",\"verdict\":\"deny\","
	           "\"why\":\"exfiltration\"");
	CHECK(t.total.thefts == 3 && t.total.misplaced == 0 && t.misplaced.time[0] == '\0');
	(void)tell(&t, 4, "\"count\":2,\"host\":\"own.example\",\"misplaced\":true,\"note\":\"in the body\",\"type\":\"http\","
	           "\"verdict\":\"deny\",\"why\":\"exfiltration\"");
	CHECK(t.total.thefts == 3 && t.total.misplaced == 2 && t.total.refused == 5);
	CHECK_STR(t.misplaced.time, "2026-11-15T16:00:04.000Z");
	CHECK_STR(t.theft.time, "2026-11-15T16:00:03.000Z");
}

TEST(audit_tally_window)
{
	static struct audit_tally t;
	struct audit_slot slots[4] = {0};

	CHECK(tell(&t, 1, "\"type\":\"http\",\"verdict\":\"allow\"") == 0);
	CHECK(tell(&t, 2, "\"host\":\"a.example\",\"method\":\"GET\",\"note\":\"a placeholder\",\"path\":\"/\","
	           "\"port\":443,\"scheme\":\"https\",\"type\":\"http\",\"verdict\":\"deny\",\"why\":\"exfiltration\"") ==
	      AUDIT_WAS_REFUSAL);
	CHECK(tell(&t, 3, "\"host\":\"b.example\",\"type\":\"dns\",\"verdict\":\"deny\",\"why\":\"no-rule\"") ==
	      AUDIT_WAS_REFUSAL);
	CHECK(t.total.thefts == 1);
	CHECK_STR(t.theft.what, "GET https://a.example/");
	CHECK_STR(t.theft.why, "a placeholder");
	CHECK_STR(t.refusal.what, "name b.example");
	/* Seconds 1 to 3, in slots of two seconds; then a window that begins later. */
	audit_tally_add_window(&t, t.since_s, 2, slots, 4);
	CHECK(slots[0].requests == 2 && slots[0].thefts == 1 && slots[0].refused == 1 && slots[1].refused == 1);
	CHECK(slots[2].requests == 0 && slots[3].requests == 0);
	audit_tally_add_window(&t, t.since_s + 2, 1, slots, 1);
	CHECK(slots[0].refused == 2 && slots[0].requests == 2);
	/* Longer slots of the tally are spread, and nothing is lost. */
	CHECK(tell(&t, 1000, "\"received\":10,\"type\":\"http\",\"verdict\":\"allow\"") == 0);
	memset(slots, 0, sizeof(slots));
	audit_tally_add_window(&t, t.since_s, 1, slots, 4);
	CHECK(t.step_s == 4 && slots[0].requests == 1 && slots[1].requests == 1 && slots[0].thefts == 1);
	CHECK(slots[0].refused + slots[1].refused + slots[2].refused + slots[3].refused == 2);
}

TEST(audit_tally_acts)
{
	static struct audit_tally t;
	struct audit_use uses[4] = {0};

	tell(&t, 1, "\"path\":\"/bin/sh\",\"pid\":2,\"type\":\"exec\"");
	tell(&t, 1, "\"path\":\"/bin/sh\",\"pid\":2,\"type\":\"exec\"");       /* again */
	tell(&t, 2, "\"error\":\"ENOENT\",\"path\":\"/bin/no\",\"pid\":3,\"type\":\"exec\"");
	tell(&t, 3, "\"call\":\"mount\",\"count\":5,\"type\":\"refused\"");
	tell(&t, 4, "\"call\":\"ptrace\",\"type\":\"danger\"");
	tell(&t, 5, "\"count\":70,\"type\":\"lost\",\"what\":\"acts\"");
	CHECK(tell(&t, 6, "\"of\":\"cat wrote /w/.git/hooks/x\",\"pid\":2,\"rule\":\"write .git/hooks\",\"then\":"
	           "\"freeze\",\"type\":\"watch\"") == AUDIT_WAS_CELL);
	CHECK(t.acts.programs == 1 && t.acts.refused == 5 && t.acts.dangerous == 1 && t.acts.lost == 70 &&
	      t.acts.watches == 1);
	CHECK_STR(t.watch.what, "cat wrote /w/.git/hooks/x");
	CHECK_STR(t.watch.why, "write .git/hooks");
	CHECK(t.total.refused == 0 && t.total.requests == 0);   /* these are requests */
	CHECK(t.sample.time_ms == 0);
	tell(&t, 7, "\"cpu_ms\":500,\"memory\":4096,\"peak\":9000,\"processes\":3,\"type\":\"resources\",\"written\":10");
	CHECK(t.sample.at[AUDIT_CPU_MS] == 500 && t.sample.cpu_permille == 0);
	tell(&t, 9, "\"cpu_ms\":1500,\"memory\":2048,\"type\":\"resources\",\"written\":30");
	CHECK(t.sample.cpu_permille == 500 && t.sample.known == (1u << AUDIT_CPU_MS | 1u << AUDIT_WRITTEN |
	                                                          1u << AUDIT_MEMORY));
	/* Seconds 6 to 9: what is used in the second without a sample stays, and sums are not repeated. */
	audit_tally_add_uses(&t, t.since_s + 5, 1, t.since_s + 8, uses, 4);
	CHECK(uses[0].samples == 0 && uses[1].at[AUDIT_CPU_MS] == 500 && uses[1].at[AUDIT_PROCESSES] == 3);
	CHECK(uses[2].at[AUDIT_MEMORY] == 4096 && uses[2].at[AUDIT_CPU_MS] == 0);
	CHECK(uses[3].at[AUDIT_MEMORY] == 2048 && uses[3].at[AUDIT_CPU_MS] == 1000 && uses[3].at[AUDIT_WRITTEN] == 20);
	/* A window that begins later knows what was in use; the next cell is added; nothing comes after its end. */
	memset(uses, 0, sizeof(uses));
	audit_tally_add_uses(&t, t.since_s + 7, 1, t.since_s + 8, uses, 4);
	audit_tally_add_uses(&t, t.since_s + 7, 1, t.since_s + 8, uses, 4);
	CHECK(uses[0].at[AUDIT_MEMORY] == 2 * 4096 && uses[1].at[AUDIT_MEMORY] == 2 * 2048 && uses[2].samples == 0);
	/* Longer slots have the most of each, and the sums. */
	tell(&t, 1000, "\"cpu_ms\":2500,\"peak\":9999,\"processes\":8,\"read\":7,\"status\":0,\"type\":\"cell.end\"");
	CHECK(t.step_s == 4 && t.uses[1].at[AUDIT_MEMORY] == 4096 && t.uses[1].at[AUDIT_CPU_MS] == 500);
	CHECK(t.sample.at[AUDIT_CPU_MS] == 2500 && t.sample.at[AUDIT_PEAK] == 9999 && t.sample.at[AUDIT_READ] == 7 &&
	      t.sample.at[AUDIT_WRITTEN] == 30 && t.sample.at[AUDIT_PROCESSES] == 0);
	CHECK(t.uses[t.n_slots - 1].at[AUDIT_CPU_MS] == 1000 && t.uses[t.n_slots - 1].samples == 0);
}
