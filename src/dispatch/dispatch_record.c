/* dispatch_record.c - how much is recorded of what a dispatch's processes do: as its agent says, or more. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"

static const char *const names[] = { [POLICY_RECORD_OFF] = "off", [POLICY_RECORD_ACTS] = "acts",
                                     [POLICY_RECORD_FULL] = "full" };

static enum policy_record
parse(const char *text)
{
	for (size_t i = POLICY_RECORD_OFF; i < ARRAY_LEN(names); i++)
		if (strcmp(text, names[i]) == 0)
			return (enum policy_record)i;
	return POLICY_RECORD_UNSAID;
}

static enum policy_record
level_of(const json_t *resolved)
{
	return parse(dispatch_text(resolved, "record"));
}

/* Nothing said is what cells have by default. */
static enum policy_record
raise(enum policy_record said, enum policy_record more)
{
	enum policy_record now = said == POLICY_RECORD_UNSAID ? POLICY_RECORD_ACTS : said;

	return more > now ? more : said;
}

static int
put(json_t *resolved, enum policy_record level, struct err *err)
{
	json_t *value = level == POLICY_RECORD_UNSAID ? json_null() : json_string(names[level]);

	return json_object_set_new(resolved, "record", value) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
dispatch_record_check(const char *wanted, struct err *err)
{
	return wanted == NULL || parse(wanted) > POLICY_RECORD_OFF ? 0 :
	       err_set(err, EINVAL, "a dispatch can only raise what is recorded, to acts or full, not to '%.64s': "
	               "`record` of its agent can be off", wanted);
}

int
dispatch_record_resolve(const json_t *agent, const struct policy_limits *policy, const char *wanted,
                        json_t *resolved, struct err *err)
{
	const char *ours = getenv("CLOISTER_RECORD");
	enum policy_record level = parse(dispatch_text(agent, "record"));

	if (level == POLICY_RECORD_UNSAID && ours != NULL && (level = parse(ours)) == POLICY_RECORD_UNSAID)
		return err_set(err, EINVAL, "CLOISTER_RECORD is off, acts or full, not '%.64s'", ours);
	if (level == POLICY_RECORD_UNSAID)
		level = policy->record;
	level = raise(level, policy->record);
	return put(resolved, raise(level, wanted != NULL ? parse(wanted) : POLICY_RECORD_UNSAID), err);
}

int
dispatch_record_confine(const json_t *parent, json_t *resolved, struct err *err)
{
	enum policy_record outer = level_of(parent);

	return put(resolved, raise(level_of(resolved), outer == POLICY_RECORD_UNSAID ? POLICY_RECORD_ACTS : outer), err);
}
