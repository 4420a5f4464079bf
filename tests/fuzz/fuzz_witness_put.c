/* fuzz_witness_put.c - acts of any bytes become members that the supervisor takes, and repeats are folded. */
#include <assert.h>
#include <string.h>

#include "base/own.h"
#include "canon/members.h"
#include "fuzz.h"
#include "witness/fold.h"
#include "witness/put.h"

#define TAKEN_MAX 64

struct input {
	const uint8_t *at;
	size_t left;
};

static uint64_t
number(struct input *in, size_t bytes)
{
	uint64_t n = 0;

	for (; bytes > 0 && in->left > 0; bytes--, in->left--)
		n = n << 8 | *in->at++;
	return n;
}

static struct act_text
text(struct input *in)
{
	size_t len = (size_t)number(in, 2) % (ACT_PATH_MAX + 1);
	struct act_text t = { (const char *)in->at, len < in->left ? len : in->left, len % 2 == 1 };

	in->at += t.len;
	in->left -= t.len;
	return t;
}

static struct act
read_act(struct input *in, struct act_count counts[4])
{
	struct act act = { .kind = (enum act_kind)(number(in, 1) % ACT_KINDS), .pid = (uint32_t)number(in, 1) };
	uint64_t flags = number(in, 1);

	act.asked = (flags & 1) != 0;
	act.from_memory = (flags & 2) != 0;
	act.signalled = (flags & 4) != 0;
	act.status_unknown = (flags & 8) != 0;
	act.error = (int)number(in, 2);
	act.status = (int)number(in, 2);
	act.file = (enum act_file)number(in, 1);
	act.net = (enum act_net)number(in, 1);
	act.by = (enum act_by)number(in, 1);
	act.family = (int)number(in, 1);
	act.nr = (uint32_t)number(in, 2);
	act.n_argv = (uint32_t)number(in, 2);
	act.lost = (enum act_kind)(number(in, 1) % (ACT_KINDS + 1));
	for (size_t i = 0; i < 6; i++)
		act.args[i] = number(in, 8);
	for (size_t i = 0; i < 4; i++)
		counts[i] = (struct act_count){ (uint32_t)number(in, 2), number(in, 8) };
	act.counts = counts;
	act.n_counts = 4;
	act.path = text(in);
	act.to = text(in);
	act.argv = text(in);
	act.cwd = text(in);
	act.script = text(in);
	act.text = text(in);
	return act;
}

struct seen {
	uint64_t acts, lost;
};

/* The count is in place of the "1", so the event stays valid. */
static void
pass(void *arg, enum act_kind kind, uint64_t count, const char *event, size_t len)
{
	struct seen *s = arg;
	const char *type;
	size_t type_len;

	assert(len <= PUT_MAX + 20 && members_check(event, len, &type, &type_len));
	assert(type_len == strlen(put_type(kind)) && memcmp(type, put_type(kind), type_len) == 0);
	s->acts += count;
}

static void
lose(void *arg, enum act_kind kind, uint64_t n, const char *why)
{
	struct seen *s = arg;

	assert((unsigned)kind <= ACT_KINDS && why != NULL);
	s->lost += n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct seen seen = {0};
	struct fold *f = fold_new(&(struct fold_sink){ pass, lose, &seen }, 256 * 1024, 0);
	uint64_t taken = 0, now = 0;

	if (f == NULL)
		return 0;
	while (in.left > 0 && taken < TAKEN_MAX) {
		OWN(buf_free) struct buf event = BUF(PUT_MAX + 1);
		struct act_count counts[4];
		struct act act = read_act(&in, counts);
		uint64_t times = number(&in, 1) % 4 + 1;
		size_t count;

		assert(put_act(&event, &act, &(struct put_more){ .grant = "/g", .why = "w" }, &count) == 0);
		for (uint64_t i = 0; i < times; i++, taken++)
			fold_take(f, act.kind, act.pid, (char *)event.data, event.len, count, now);
		now += number(&in, 1);
		if (number(&in, 1) % 2 == 1)
			fold_flush(f, act.pid, now);
		fold_turn(f, false, now);
	}
	fold_turn(f, true, now);
	assert(seen.acts + seen.lost == taken);
	fold_free(f);
	return 0;
}
