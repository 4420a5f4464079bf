/* fuzz_question.c - what a courier says of a request that waits for people. */
#include <assert.h>
#include <string.h>

#include "fuzz.h"
#include "proc/supervisor/supervisor_approvals.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct approval_question q = {0};
	struct buf b;

	buf_init_borrowed(&b, data, size);
	if (approval_question_get(&b, &q) < 0)
		return 0;
	assert(q.number > 0 && q.ms > 0 && q.needs > 0 && q.needs <= COURIER_ASK_APPROVALS);
	assert(strlen(q.path) <= COURIER_ASK_PATH && strlen(q.shape) <= COURIER_ASK_SHAPE);
	assert(strlen(q.headers) <= COURIER_ASK_SHAPE);
	assert(q.n_secrets <= COURIER_ASK_SECRETS && q.n_approvers <= COURIER_ASK_APPROVERS);
	for (uint32_t i = 0; i < q.n_approvers; i++)
		assert(strlen(q.approvers[i]) <= COURIER_ASK_APPROVER);
	return 0;
}
