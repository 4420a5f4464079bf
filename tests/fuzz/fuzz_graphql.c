/* fuzz_graphql.c - a GraphQL document, and a query of a URL. */
#include <assert.h>

#include "base/own.h"
#include "fuzz.h"
#include "inspect/body.h"

static void
check_inside(const struct body_operation *op, const char *text, size_t size)
{
	assert(op->type == POLICY_GRAPHQL_QUERY || op->type == POLICY_GRAPHQL_MUTATION ||
	       op->type == POLICY_GRAPHQL_SUBSCRIPTION);
	if (op->n_name > 0)
		assert(op->name >= text && op->name + op->n_name <= text + size);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct body_operations ops;
	struct body body = { .path = { (const char *)data, size } };

	ops.n = 0;
	if (body_graphql_document((const char *)data, size, &ops) == 0) {
		assert(ops.n > 0 && ops.n <= BODY_OPERATIONS_MAX);
		for (size_t i = 0; i < ops.n; i++)
			check_inside(&ops.at[i], (const char *)data, size);
	}
	if (body_graphql_read(&body, NULL, &ops) == 0)
		assert(body_graphql_in_query(body.path));
	body_graphql_free(&ops);
	return 0;
}
