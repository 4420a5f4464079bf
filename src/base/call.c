/* call.c - see call.h. */
#include "base/call.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/text.h"
#define WITNESS_EVERY_ARCH
#include "witness_calls.h"

static const struct {
	const char *const *names;
	size_t n;
} arches[] = {
	[CALL_X86_64] = { witness_calls_x86_64, ARRAY_LEN(witness_calls_x86_64) },
	[CALL_AARCH64] = { witness_calls_aarch64, ARRAY_LEN(witness_calls_aarch64) },
};

const char *
call_name(enum call_arch arch, uint32_t nr)
{
	return nr < arches[arch].n ? arches[arch].names[nr] : NULL;
}

int
call_number(enum call_arch arch, const char *name)
{
	for (size_t i = 0; i < arches[arch].n; i++)
		if (arches[arch].names[i] != NULL && strcmp(arches[arch].names[i], name) == 0)
			return (int)i;
	return -1;
}

bool
call_is_known(const char *name)
{
	return call_number(CALL_X86_64, name) >= 0 || call_number(CALL_AARCH64, name) >= 0;
}

bool
call_set_has(const unsigned char bits[CALL_NUMBERS_MAX / 8], uint32_t nr)
{
	return nr < CALL_NUMBERS_MAX && (bits[nr / 8] >> (nr % 8) & 1) != 0;
}

void
call_set_add(unsigned char bits[CALL_NUMBERS_MAX / 8], uint32_t nr)
{
	bits[nr / 8] = (unsigned char)(bits[nr / 8] | 1u << (nr % 8));
}

bool
call_set_is_empty(const struct call_set *set)
{
	static const struct call_set none;

	return !set->namespaces && !set->programs && memcmp(set->denied, none.denied, sizeof(none.denied)) == 0 &&
	       memcmp(set->absent, none.absent, sizeof(none.absent)) == 0;
}

void
call_set_put(struct buf *b, const struct call_set *set)
{
	buf_put_u32(b, (uint32_t)set->namespaces | (uint32_t)set->programs << 1);
	buf_put(b, set->denied, sizeof(set->denied));
	buf_put(b, set->absent, sizeof(set->absent));
}

int
call_set_get(struct buf *b, struct call_set *ret_set)
{
	struct call_set set;
	uint32_t bits;

	if (buf_get_u32(b, &bits) < 0 || bits > 3 || buf_left(b) < sizeof(set.denied) + sizeof(set.absent))
		return -EBADMSG;
	set.namespaces = (bits & 1) != 0;
	set.programs = (bits & 2) != 0;
	memcpy(set.denied, b->data + b->pos, sizeof(set.denied));
	memcpy(set.absent, b->data + b->pos + sizeof(set.denied), sizeof(set.absent));
	b->pos += sizeof(set.denied) + sizeof(set.absent);
	*ret_set = set;
	return 0;
}

const char *
call_nearest(const char *word)
{
	const char *all[CALL_ARCHES * CALL_NUMBERS_MAX + 1];
	size_t n = 0;

	for (unsigned arch = 0; arch < CALL_ARCHES; arch++)
		for (size_t i = 0; i < arches[arch].n; i++)
			if (arches[arch].names[i] != NULL)
				all[n++] = arches[arch].names[i];
	all[n] = NULL;
	return text_nearest(word, all);
}
