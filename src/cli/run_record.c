/* run_record.c - --record, and `record` of policies: what is recorded of a cell's processes. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/run.h"

static const char *const names[] = { [POLICY_RECORD_OFF] = "off", [POLICY_RECORD_ACTS] = "acts",
                                     [POLICY_RECORD_FULL] = "full" };

const char *
run_record_name(enum policy_record level)
{
	return names[level];
}

int
run_set_record(struct run *run, const char *value, const char *by, struct err *err)
{
	for (size_t i = POLICY_RECORD_OFF; i < ARRAY_LEN(names); i++)
		if (strcmp(value, names[i]) == 0) {
			run->record = (enum policy_record)i;
			return 0;
		}
	return err_set(err, EINVAL, "%s is off, acts or full, not '%s'", by, value);
}

static enum cell_witness
level_of(enum policy_record level)
{
	return level == POLICY_RECORD_FULL ? CELL_RECORD_FULL : level == POLICY_RECORD_ACTS ? CELL_RECORD_ACTS :
	       level == POLICY_RECORD_OFF ? CELL_RECORD_OFF : CELL_RECORD_DEFAULT;
}

/* More than before, never less. */
void
run_raise_record(struct cell_spec *spec, const struct policy_limits *said)
{
	const bool demands = said->record > POLICY_RECORD_OFF;
	enum cell_witness_lost lost = said->record_lost == POLICY_LOST_KILL ? CELL_LOST_KILL :
	                              said->record_lost == POLICY_LOST_FREEZE ||
	                              (demands && said->record_lost == POLICY_LOST_UNSAID) ? CELL_LOST_FREEZE :
	                              CELL_LOST_GO_ON;

	if (demands && level_of(said->record) > spec->record)
		spec->record = level_of(said->record);
	spec->record_demanded |= demands;
	if (lost > spec->record_lost)
		spec->record_lost = lost;
}

/* The option beats the policy only where it asks for more. */
void
run_finish_record(struct run *run, const struct policy_limits *said)
{
	run->spec.record = level_of(run->record != POLICY_RECORD_UNSAID ? run->record : said->record);
	run_raise_record(&run->spec, said);
}
