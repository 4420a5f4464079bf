/* fuzz_witness_bpf.c - samples of the kernel's programs. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "fuzz.h"
#include "witness/bpf/bpf.h"

/* Every byte is there, within what a text may have. */
static void
check_text(const struct act_text *text)
{
	unsigned sum = 0;

	assert(text->len <= ACT_PATH_MAX);
	assert(text->at != NULL || text->len == 0);
	for (size_t i = 0; i < text->len; i++)
		sum += (unsigned char)text->at[i];
	assert(sum <= text->len * 255);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct bpf_texts texts;
	struct act act;
	int r = bpf_decode(data, size, &texts, &act);

	assert(r == 0 || r == -EBADMSG);
	if (r < 0)
		return 0;
	assert((unsigned)act.kind < ACT_LOST && act.n_counts <= SAMPLE_CALLS);
	check_text(&act.path);
	check_text(&act.to);
	check_text(&act.cwd);
	check_text(&act.script);
	check_text(&act.argv);
	check_text(&act.text);
	return 0;
}
