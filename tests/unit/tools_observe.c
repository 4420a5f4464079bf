/* tools_observe.c - tests of tools/observe: scopes that are proposed from the records of calls. */
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "policy/policy_yaml.h"
#include "test.h"
#include "tools/check.h"

#define REQUEST "{\"type\":\"http\",\"verdict\":\"allow\",\"method\":\"GET\",\"scheme\":\"https\",\"host\":\"a.example\"," \
	"\"port\":443,\"path\":\"/x\",\"secrets\":[\"A_KEY\",\"B_KEY\"]}\n"

static const struct {
	const char *old, *events, *scope;
} proposals[] = {
	{ "{}", "", "{}" },
	{ "{}", REQUEST, "secrets: ['A_KEY', 'B_KEY']}" },
	{ "{}", REQUEST REQUEST, "secrets: ['A_KEY', 'B_KEY']}" },
	{ "{}", "{\"type\":\"file\",\"grant\":\"/g\",\"act\":\"write\",\"path\":\"/g/x\"}\n", "{write: ['/g/x']}" },
	/* A record does not show these. */
	{ "{time: 9s, programs: [git], secrets: [OLD_KEY], write: [/old]}", "", "{programs: [git], time: 9s}" },
	{ "{time: 9s}", REQUEST, "secrets: ['A_KEY', 'B_KEY'], time: 9s}" },
};

TEST(observe_proposals)
{
	for (size_t i = 0; i < ARRAY_LEN(proposals); i++) {
		OWN(node_freep) struct node *old = NULL;
		OWN(buf_free) struct buf b = BUF(65536);
		const char *want = proposals[i].scope;

		CHECK(node_parse("old", proposals[i].old, strlen(proposals[i].old), &old, NULL) == 0);
		CHECK(check_put_scope(&b, old, proposals[i].events, strlen(proposals[i].events), NULL) == 0);
		buf_put(&b, "", 1);
		CHECK(b.len > strlen(want) && strcmp((char *)b.data + b.len - 1 - strlen(want), want) == 0);
	}
}
