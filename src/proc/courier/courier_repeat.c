/* courier_repeat.c - see courier_repeat.h. */
#include "proc/courier/courier_repeat.h"

#include <stdlib.h>
#include <string.h>

static struct repeat *
find(struct repeats *r, const void *text, size_t len)
{
	struct repeat *kind;

	for (size_t i = 0; i < r->n; i++)
		if (r->kinds[i].len == len && memcmp(r->kinds[i].text, text, len) == 0)
			return &r->kinds[i];
	if (r->n == REPEATS_KINDS_MAX || len == 0 || len > REPEATS_TEXT_MAX)
		return NULL;
	kind = &r->kinds[r->n];
	*kind = (struct repeat){ .text = malloc(len), .len = len };
	if (kind->text == NULL)
		return NULL;
	memcpy(kind->text, text, len);
	r->n++;
	return kind;
}

bool
repeats_take(struct repeats *r, const void *text, size_t len, uint64_t times)
{
	struct repeat *kind = find(r, text, len);

	if (kind != NULL && kind->times >= REPEATS_EACH) {
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
	return kind->times > REPEATS_EACH ? kind->times - REPEATS_EACH : 0;
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
		free(r->kinds[i].text);
	*r = (struct repeats){0};
}
