/* api_steer.c - see api_steer.h. */
#include "proc/serve/api_steer.h"

#include <errno.h>

int
api_steer_who(struct api_call *c, const struct api_member *members, struct cell_steer_who *ret_who)
{
	static const struct api_member only_why[] = { { "why", API_TEXT, false }, {0} };
	const char *why;

	if (c->body != NULL && api_body_check(c, members != NULL ? members : only_why) < 0)
		return -EINVAL;
	why = c->body == NULL ? NULL : json_string_value(api_body_get(c, "why"));
	if (why != NULL && cell_steer_check_why(why, &c->err) < 0) {
		api_fail_as(c, 400, "invalid");
		return api_body_wrong(c, "why", -EINVAL);
	}
	*ret_who = (struct cell_steer_who){ .by = c->q->who, .why = why, .tells = true };
	return 0;
}

void
api_steer_note(struct api_call *c, const char *name, const char *value)
{
	const char *why = json_string_value(api_body_get(c, "why"));
	const char *reason = json_string_value(api_body_get(c, "reason"));
	const char *const members[][2] = {
		{ "cell", c->id[0] != '\0' ? c->id : NULL },
		{ "why", why != NULL ? why : reason },
		{ name, value },
	};

	if (api_note(c, true, c->route->record, members, name != NULL ? 3 : 2) < 0)
		c->code = NULL;
}
