/* api_reserve.c - slots in reserve over the API: dispatch/dispatch_reserve.c.
 *
 * It gives no right: who may dispatch sandboxes can keep as many slots with them.  A client sets a reserve by a name of its own,
 * and has to repeat that, or the reserve is over. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "dispatch/dispatch.h"
#include "proc/serve/api.h"

static const struct api_member members[] = { { "agent", API_TEXT, false }, { "slots", API_NUMBER, true }, {0} };

static bool
is_name(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len < DISPATCH_RESERVE_NAME_MAX - sizeof(DISPATCH_RESERVE_AGENTS) &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == len;
}

/* Those inside a cell, and those with nothing but a token, have no use for it. */
static int
check_client(struct api_call *c)
{
	if (c->q->role == SERVE_OPERATOR || (c->parent[0] == '\0' && !c->q->door->is_tcp))
		return 0;
	return api_fail_with(c, 403, "forbidden", "slots are reserved over the service's sockets only");
}

static int
read_asked(struct api_call *c, struct dispatch_reserve *ask)
{
	json_int_t slots;

	if (check_client(c) < 0 || api_body_check(c, members) < 0)
		return -EPERM;
	slots = json_integer_value(api_body_get(c, "slots"));
	ask->agent = json_string_value(api_body_get(c, "agent"));
	ask->local = c->api->concurrency;
	if (!is_name(c->params.at[0]))
		return api_fail_with(c, 400, "invalid", "the name of a reserve has up to %zu letters, digits, '.', '-' and '_'",
		                     DISPATCH_RESERVE_NAME_MAX - sizeof(DISPATCH_RESERVE_AGENTS) - 1);
	if (slots < 0 || slots > DISPATCH_OPEN_MAX)
		return api_body_wrong(c, "slots", api_fail_with(c, 400, "invalid", "'slots' must be a number up to %d", DISPATCH_OPEN_MAX));
	if (slots > 0 && (ask->agent == NULL || *ask->agent == '\0'))
		return api_body_wrong(c, "agent", api_fail_with(c, 400, "invalid", "which agent?"));
	ask->slots = (unsigned)slots;
	return 0;
}

int
api_reserve(struct api_call *c)
{
	char name[DISPATCH_RESERVE_NAME_MAX], slots[16];
	struct dispatch_reserve ask = { .name = name };
	struct dispatch_reserved reserved;

	if (api_registry(c) == NULL || read_asked(c, &ask) < 0)
		return -EIO;
	snprintf(name, sizeof(name), "%s%s", c->q->role == SERVE_AGENT ? DISPATCH_RESERVE_AGENTS : "", c->params.at[0]);
	if (dispatch_reserve(api_registry(c), &ask, &reserved, &c->err) < 0)
		return api_fail(c);
	snprintf(slots, sizeof(slots), "%u", reserved.slots);
	if (reserved.changed && api_note(c, false, "reserve.changed", (const char *const[][2]){ { "name", name },
	                                 { "agent", ask.agent }, { "slots", slots } }, 3) < 0)
		return -EIO;
	c->answer = json_pack("{s:s, s:s?, s:i, s:i, s:i}", "name", name, "target", *reserved.target != '\0' ? reserved.target : NULL,
	                      "slots", (int)reserved.slots, "free", (int)reserved.free, "seconds",
	                      reserved.slots > 0 ? DISPATCH_RESERVE_MS / 1000 : 0);
	return 0;
}

int
api_reserves(struct api_call *c)
{
	json_t *list = NULL;

	if (api_registry(c) == NULL)
		return -EIO;
	if (dispatch_list_reserves(api_registry(c), &list, &c->err) < 0)
		return api_fail(c);
	c->answer = json_pack("{s:o}", "items", list);
	return 0;
}
