/* call.c - see call.h. */
#include "base/call.h"

#include <string.h>

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
