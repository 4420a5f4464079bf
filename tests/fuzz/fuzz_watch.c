/* fuzz_watch.c - acts of any bytes before the rules of `watch`: dots and double slashes in a path make no difference.
 *
 * The first bytes say what was done, then come two texts with a NUL between them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "fuzz.h"
#include "policy/policy.h"
#include "policy/policy_behaviour.h"
#include "witness/watch.h"

#define HEAD 8

static const char rules[] = "version: 1\n"
	"watch:\n"
	"- {write: ~/.ssh, then: freeze}\n"
	"- {write: '/w/**/x', then: freeze}\n"
	"- {write: '*.pem', then: freeze}\n"
	"- {write: .git/hooks, then: freeze}\n"
	"- {read: /etc/shadow, then: freeze}\n"
	"- {exec: [curl, /usr/bin/*], then: freeze}\n";

static struct witness_watch *
load(void)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX);
	struct witness_watch *w = NULL;

	if (policy_load_text("t.yaml", rules, strlen(rules), &p, NULL, NULL) < 0)
		abort();
	policy_put_matchers(&b, p);
	if (witness_watch_new(&b, "/home/agent", &w, NULL) < 0)
		abort();
	return w;
}

static struct act
read_act(const uint8_t *data, size_t size)
{
	const char *path = (const char *)data + HEAD;
	size_t left = size - HEAD, len = strnlen(path, left);
	struct act act = { .kind = (enum act_kind)(data[0] % ACT_KINDS), .file = (enum act_file)(data[1] % ACT_FILES),
	                   .net = (enum act_net)(data[2] % ACT_NETS), .error = data[3], .nr = data[4],
	                   .unknown = (data[5] & 1) != 0, .from_memory = (data[5] & 2) != 0, .asked = (data[5] & 4) != 0 };

	act.family = data[6];
	act.port = data[7];
	act.path = (struct act_text){ .at = path, .len = len < ACT_PATH_MAX ? len : ACT_PATH_MAX };
	if (len < left)
		act.to = (struct act_text){ .at = path + len + 1, .len = left - len - 1 };
	if (act.to.len > ACT_PATH_MAX)
		act.to.len = ACT_PATH_MAX;
	act.argv = act.script = act.cwd = act.to;
	return act;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char odd[ACT_PATH_MAX + 16];
	static struct witness_watch *w;
	char what[WATCH_WHAT_MAX];
	struct act act, other;
	int at = -1, n;

	if (size < HEAD)
		return 0;
	w = w != NULL ? w : load();
	act = read_act(data, size);
	witness_watch_what(&act, what);
	assert(memchr(what, '\0', sizeof(what)) != NULL);
	do {
		int next = witness_watch_next(w, &act, (size_t)(at + 1));

		assert(next == -1 || next > at);
		at = next;
	} while (at >= 0);
	if (act.kind != ACT_FILE || act.path.len == 0 || act.path.at[0] != '/' || act.path.len > ACT_PATH_MAX - 16)
		return 0;
	n = snprintf(odd, sizeof(odd), "/.//x/../%.*s", (int)act.path.len, act.path.at);
	other = act;
	other.path = (struct act_text){ .at = odd, .len = (size_t)n };
	assert(witness_watch_next(w, &act, 0) == witness_watch_next(w, &other, 0));
	return 0;
}
