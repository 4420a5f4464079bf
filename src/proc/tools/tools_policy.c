/* tools_policy.c - reads the policy that the supervisor hands over: for both halves. */
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy.h"
#include "proc/tools/tools_proc.h"

int
tools_read_policy(int fd, struct policy **ret_policy, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct buf b;
	size_t len;
	int r = read_whole(fd, POLICY_ENCODED_MAX, &text, &len, err);

	close(fd);
	if (r < 0)
		return r;
	buf_init_borrowed(&b, text, len);
	return policy_get(&b, ret_policy, err);
}
