/* every.c - records an action on every cell at once as one record of the operator's timeline. */
#include "audit/operator.h"
#include "base/err.h"
#include "base/own.h"
#include "cli/cli.h"

int
cli_note_every(enum steer_verb verb, size_t n, const char *secret, const char *why, struct err *err)
{
	struct audit_member members[] = {
		{ .name = "cells", .kind = AUDIT_NUMBER, .number = n },
		{ .name = "secret", .text = secret },
		{ .name = "why", .text = why },
	};
	int r = n == 0 ? 0 : operator_note(steer_rows[verb].record_every, members, ARRAY_LEN(members), err);

	return r < 0 ? err_wrap(err, "it is done, but could not be recorded") : 0;
}
