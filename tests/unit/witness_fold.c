/* witness_fold.c - tests of witness/fold: repeats are counted, and everything is bounded. */
#include "witness/fold.h"

#include <stdio.h>

#include "test.h"

struct seen {
	uint64_t passed, acts, bytes, lost[ACT_KINDS + 1];
	char last[256];
};

static void
seen_pass(void *arg, enum act_kind kind, uint64_t count, const char *text, size_t len)
{
	struct seen *s = arg;

	(void)kind;
	s->passed++;
	s->acts += count;
	s->bytes += len;
	snprintf(s->last, sizeof(s->last), "%.*s", (int)len, text);
}

static void
seen_lose(void *arg, enum act_kind kind, uint64_t n, const char *why)
{
	struct seen *s = arg;

	CHECK(why != NULL);
	s->lost[kind] += n;
}

OWN_BY(fold_freep, struct fold *, fold_free)

static struct fold *
make(struct seen *seen, uint64_t total)
{
	struct fold *f = fold_new(&(struct fold_sink){ seen_pass, seen_lose, seen }, total, 0);

	CHECK(f != NULL);
	return f;
}

TEST(witness_fold_counts_repeats)
{
	struct seen s = {0};
	OWN(fold_freep) struct fold *f = make(&s, 1 << 20);

	for (int i = 0; i < 1000; i++)
		fold_take(f, ACT_FILE, 7, "n:1,x", 5, 2, 10);
	fold_take(f, ACT_FILE, 7, "n:1,y", 5, 2, 20);
	CHECK(s.passed == 0 && fold_next(f) == 10 + FOLD_WAIT_MS);
	fold_turn(f, false, 10 + FOLD_WAIT_MS);
	CHECK(s.passed == 1 && s.acts == 1000);
	CHECK_STR(s.last, "n:1000,x");
	/* It goes on, so it waits twice as long. */
	fold_take(f, ACT_FILE, 7, "n:1,x", 5, 2, 120);
	fold_turn(f, false, 250);
	CHECK_STR(s.last, "n:1,y");
	CHECK(s.passed == 2);
	fold_turn(f, false, 10 + 3 * FOLD_WAIT_MS);
	CHECK(s.passed == 3 && s.acts == 1002);
	/* Nothing more comes. */
	fold_turn(f, false, 100000);
	fold_turn(f, false, 300000);
	CHECK(s.passed == 3 && fold_next(f) == UINT64_MAX);
}

TEST(witness_fold_flushes_a_process_in_order)
{
	struct seen s = {0};
	OWN(fold_freep) struct fold *f = make(&s, 1 << 20);

	fold_take(f, ACT_FILE, 7, "n:1,a", 5, 2, 0);
	fold_take(f, ACT_FILE, 8, "n:1,b", 5, 2, 0);
	/* In the same bucket. */
	fold_take(f, ACT_FILE, 7 + 4096, "n:1,c", 5, 2, 0);
	fold_take(f, ACT_NET, 7, "n:1,d", 5, 2, 0);
	fold_flush(f, 7, 1);
	CHECK(s.passed == 2);
	CHECK_STR(s.last, "n:1,d");
	fold_flush(f, 7, 1);
	CHECK(s.passed == 2);
	fold_take(f, ACT_EXIT, 7, "exit", 4, 0, 1);
	CHECK_STR(s.last, "exit");
	fold_turn(f, true, 1);
	CHECK(s.passed == 5 && fold_next(f) == UINT64_MAX);
}

/* Every act is passed on or said to be lost, however many there are. */
TEST(witness_fold_loses_nothing_unsaid)
{
	static const enum act_kind kinds[] = { ACT_FILE, ACT_NET, ACT_EXEC, ACT_CALLS };
	struct seen s = {0};
	OWN(fold_freep) struct fold *f = make(&s, 8 << 20);
	uint64_t taken = 0, lost = 0;
	char text[128];

	for (uint64_t i = 0; i < 200000; i++) {
		enum act_kind kind = kinds[i % ARRAY_LEN(kinds)];
		int len = snprintf(text, sizeof(text), "n:1,%llu,%080d", (unsigned long long)i, 0);

		fold_take(f, kind, (uint32_t)i % 1000, text, (size_t)len, kind == ACT_EXEC || kind == ACT_CALLS ? 0 : 2, i / 100);
		fold_turn(f, false, i / 100);
		taken++;
	}
	CHECK(s.bytes <= FOLD_BURST_MAX + 2 * FOLD_SECOND_MAX);
	fold_turn(f, true, 3000);
	for (size_t i = 0; i <= ACT_KINDS; i++)
		lost += s.lost[i];
	CHECK(s.acts + lost == taken);
	/* The commonest kinds are left out first. */
	CHECK(s.lost[ACT_EXEC] < s.lost[ACT_FILE] && s.lost[ACT_NET] < s.lost[ACT_CALLS]);
	CHECK(s.lost[ACT_FILE] > 0);
}

TEST(witness_fold_total_is_kept)
{
	struct seen s = {0};
	OWN(fold_freep) struct fold *f = make(&s, 10000);
	uint64_t lost = 0;

	for (uint64_t i = 0; i < 1000; i++)
		fold_take(f, ACT_EXEC, 1, "0123456789012345678901234567890123456789", 40, 0, i * 1000);
	CHECK(s.bytes <= 10000 && s.bytes > 9000);
	/* Counts come seldom now. */
	CHECK(fold_next(f) > 60000);
	fold_turn(f, true, 10000000);
	for (size_t i = 0; i <= ACT_KINDS; i++)
		lost += s.lost[i];
	CHECK(s.acts + lost == 1000);
}

TEST(witness_fold_memory_is_bounded)
{
	struct seen s = {0};
	OWN(fold_freep) struct fold *f = make(&s, 1 << 30);
	char text[1024];

	memset(text, 'x', sizeof(text));
	for (int i = 0; i < 10000; i++) {
		int len = snprintf(text, sizeof(text), "n:1,%d", i);

		text[len] = 'x';
		fold_take(f, ACT_FILE, 1, text, sizeof(text), 2, 0);
	}
	/* What did not fit was passed on early. */
	CHECK(s.passed > 1000);
	fold_turn(f, true, 0);
	CHECK(s.acts + s.lost[ACT_FILE] == 10000);
}
