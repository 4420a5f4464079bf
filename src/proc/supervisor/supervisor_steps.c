/* supervisor_steps.c - writes the lines of CELL_STEPS, from which a dispatch reports what happens
 * in its cell. */
#include <stdlib.h>

#include "base/io.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"

bool
supervisor_step_begin(const struct supervisor *sv, struct step *ret_step, const char *event)
{
	*ret_step = (struct step){0};
	ret_step->w.out = sv->setup.steps < 0 ? NULL : open_memstream(&ret_step->text, &ret_step->len);
	if (ret_step->w.out == NULL)
		return false;
	json_open(&ret_step->w, NULL, '{');
	json_str(&ret_step->w, "event", event);
	return true;
}

void
supervisor_step_end(const struct supervisor *sv, struct step *step)
{
	char time[AUDIT_TIME_LEN + 1];

	audit_time_now(time);
	json_str(&step->w, "time", time);
	json_close(&step->w, '}');
	fputc('\n', step->w.out);
	if (fclose(step->w.out) == 0)
		(void)write_all(sv->setup.steps, step->text, step->len, NULL);
	free(step->text);
}
