/* fuzz_project.c - files of a project: whatever they say, the policy for it loads and allows no host of theirs. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "policy/policy.h"
#include "policy/policy_yaml.h"
#include "project/project.h"

static void
read_all(struct project *p, const char *text, size_t len)
{
	project_read_package(p, text, len);
	project_read_mcp(p, text, len);
	project_read_git(p, text, len);
	project_read_modules(p, text, len);
	project_read_lines(p, "f", text, len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(freep) struct project *p = calloc(1, sizeof(*p));
	OWN(freep) char *text = malloc(size + 1);
	OWN(buf_free) struct buf policy = BUF(1 << 20), cases = BUF(1 << 20);
	OWN(policy_freep) struct policy *loaded = NULL;
	OWN(node_freep) struct node *list = NULL;
	struct policy_limits limits = {0};
	struct err err = {0};

	assert(p != NULL && text != NULL);
	/* Without a NUL at its end, as it is in a larger text. */
	memcpy(text, data, size);
	read_all(p, text, size);
	assert(p->n <= PROJECT_NEEDS_MAX && p->n_notes <= PROJECT_NOTES_MAX);
	project_put_policy(&policy, p, "claude");
	project_put_cases(&cases, p);
	assert(!buf_failed(&policy) && !buf_failed(&cases));
	assert(policy_load_text("f", (const char *)policy.data, policy.len, &loaded, &limits, &err) == 0);
	assert(node_parse("f", (const char *)cases.data, cases.len, &list, &err) == 0);
	for (size_t i = 0; i < p->n; i++)
		assert(!p->needs[i].is_known || strcmp(p->needs[i].place.host, "github.com") == 0 ||
		       strcmp(p->needs[i].place.host, "gitlab.com") == 0 || strcmp(p->needs[i].place.host, "bitbucket.org") == 0 ||
		       strcmp(p->needs[i].place.host, "codeberg.org") == 0);
	return 0;
}
