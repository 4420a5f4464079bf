/* repeats.c - see repeats.h. */
#include "canon/repeats.h"

#include <string.h>

static struct repeat *
find(struct repeats *r, const struct members *event, size_t n, uint64_t each)
{
	size_t len = n == 0 ? 0 : event->at[n - 1].at + event->at[n - 1].len;
	struct repeat *kind;

	for (size_t i = 0; i < r->n; i++) {
		const struct buf *text = &r->kinds[i].members.text;

		if (text->len == len && memcmp(text->data, event->text.data, len) == 0)
			return &r->kinds[i];
	}
	if (r->n == REPEATS_KINDS_MAX || len == 0 || len > REPEATS_TEXT_MAX)
		return NULL;
	kind = &r->kinds[r->n];
	kind->times = 0;
	kind->each = each;
	members_init(&kind->members, REPEATS_TEXT_MAX);
	members_copy(&kind->members, event, n);
	if (members_failed(&kind->members)) {
		members_free(&kind->members);
		return NULL;
	}
	r->n++;
	return kind;
}

bool
repeats_take(struct repeats *r, const struct members *event, size_t n, uint64_t times,
             uint64_t each)
{
	struct repeat *kind = find(r, event, n, each);

	if (kind != NULL && kind->times >= kind->each) {
		kind->times += times;
		return false;
	}
	if (r->told >= (r->flooded ? REPEATS_ALL_AGAIN : REPEATS_ALL)) {
		r->untold += times;
		return false;
	}
	r->told++;
	if (kind != NULL)
		kind->times++;
	return true;
}

uint64_t
repeats_untold(const struct repeat *kind)
{
	return kind->times > kind->each ? kind->times - kind->each : 0;
}

void
repeats_reset(struct repeats *r)
{
	bool flooded = r->untold > 0;

	repeats_free(r);
	r->flooded = flooded;
}

void
repeats_free(struct repeats *r)
{
	for (size_t i = 0; i < r->n; i++)
		members_free(&r->kinds[i].members);
	r->n = 0;
	r->told = r->untold = 0;
	r->flooded = false;
}
