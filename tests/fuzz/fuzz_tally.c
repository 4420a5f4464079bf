/* fuzz_tally.c - lines of a timeline as dashboards read them: summed up, and searched. */
#include <assert.h>
#include <string.h>

#include "audit/log.h"
#include "audit/page.h"
#include "audit/tally.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char low[AUDIT_LINE_MAX + 1];
	static struct audit_tally tally;
	struct audit_page page = { .types = "http,refusal", .search = "a", .needle = "a", .low = low };
	struct audit_page of_process = { .has_pid = true, .pid = 2 };
	struct audit_slot slots[7], sum = {0};
	struct audit_use uses[7] = {0};
	uint64_t cpu_ms = 0;
	const char *line = (const char *)data, *end = line + size;
	uint64_t step;
	size_t n;

	memset(&tally, 0, sizeof(tally));
	while (line < end) {
		const char *newline = memchr(line, '\n', (size_t)(end - line));
		size_t len = (size_t)((newline != NULL ? newline : end) - line);

		(void)audit_tally_line(&tally, line, len);
		(void)audit_page_wants(&page, line, len);
		(void)audit_page_wants(&of_process, line, len);
		(void)audit_page_number(line, len);
		line += len + 1;
	}
	n = audit_tally_over_time(&tally, tally.since_s, 7, slots, &step);
	assert(n <= 7);
	for (size_t i = 0; i < n; i++)
		sum.requests += slots[i].requests;
	assert(tally.since_s == 0 || sum.requests <= tally.total.requests);
	audit_tally_add_uses(&tally, tally.since_s, step, UINT64_MAX, uses, 7);
	for (size_t i = 0; i < 7; i++)
		cpu_ms += uses[i].at[AUDIT_CPU_MS];
	assert(cpu_ms <= tally.sample.at[AUDIT_CPU_MS]);
	return 0;
}
