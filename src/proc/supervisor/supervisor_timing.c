/* supervisor_timing.c - the supervisor's part in `cloister run --timing`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/timing.h"
#include "proc/supervisor/supervisor.h"

int
supervisor_timing_begin(struct supervisor *sv, const char *mode, struct err *err)
{
	int r = timing_attach(CELL_TIMING_FD, err);

	if (r < 0)
		return r;
	timing_mark(TIMING_SUPERVISOR);
	sv->timing_json = strcmp(mode, "json") == 0;
	return 0;
}

void
supervisor_timing_print(const struct supervisor *sv)
{
	OWN(freep) char *text = NULL;
	uint64_t at[TIMING_STEPS];
	size_t len = 0;
	FILE *out;

	if (timing_page == NULL)
		return;
	memcpy(at, timing_page, sizeof(at));
	out = open_memstream(&text, &len);
	if (out == NULL)
		return;
	if (sv->timing_json) {
		struct json w = { .out = out };

		json_open(&w, NULL, '{');
		json_str(&w, "cell", sv->spec.id);
		timing_put_json(&w, "steps", at);
		json_close(&w, '}');
		fputc('\n', out);
	} else {
		timing_print(out, at);
	}
	if (fclose(out) == 0)
		supervisor_print(text, len);
}
