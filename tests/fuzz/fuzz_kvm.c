/* fuzz_kvm.c - the texts of /proc/cpuinfo and /etc/group. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "vm/kvm_parts.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) char *text = malloc(size + 1);
	struct kvm_facts facts = {0};

	if (text == NULL)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	kvm_note_cpu(&facts, text);
	assert(facts.driver == NULL || strncmp(facts.driver, "kvm_", 4) == 0);
	kvm_note_group(&facts, text, 107);
	assert(memchr(facts.group, '\0', sizeof(facts.group)) != NULL && strpbrk(facts.group, ":\n") == NULL);
	assert(facts.group[0] == '\0' || strstr(text, facts.group) != NULL);
	return 0;
}
