/* injection.c - looks in results of tools for text that is meant for the model: see inspect/injection.h.
 *
 * It flags them in the record, and holds nothing back. */
#include "inspect/injection.h"

#include <stdlib.h>

#include "base/own.h"
#include "egress/courier.h"
#include "policy/policy_tools.h"

/* Descriptions of tools too, which a client gives its model. */
enum stage_answer
injection_head(struct exchange *ex, struct http_head *head, bool has_body)
{
	const struct policy_tools *tools = exchange_is_for_tools(ex) ? policy_tools_of(ex->policy->policy) : NULL;

	(void)head;
	/* Without memory nothing is flagged: it is a help. */
	if (tools != NULL && tools->injection != POLICY_INJECTION_OFF && has_body && ex->t.upstream != NULL && ex->injection == NULL)
		ex->injection = calloc(1, sizeof(*ex->injection));
	return STAGE_CONTINUE;
}

enum stage_answer
injection_data(struct exchange *ex, const void *data, size_t len)
{
	if (ex->injection != NULL)
		injection_feed(ex->injection, data, len);
	return STAGE_CONTINUE;
}

void
exchange_injection_record(struct events *e, const struct exchange *ex)
{
	const char *kinds[INJECTION_KINDS_MAX];
	size_t n = 0;

	for (size_t k = 0; ex->injection != NULL && k < injection_n_kinds; k++)
		if ((ex->injection->found >> k & 1) != 0)
			kinds[n++] = injection_kinds[k];
	if (n > 0)
		event_list(e, "injection", kinds, n);
}
