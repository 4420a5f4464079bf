/* prune.c - `cloister dispatches prune`: removes old dispatches. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "audit/operator.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "proc/dispatch/dispatch_proc.h"
#include "registry/registry.h"

/* Called before they are removed. */
static int
note(void *arg, const char *const *ids, size_t n, struct err *err)
{
	OWN(buf_free) struct buf list = BUF(AUDIT_EVENT_MAX);
	struct audit_member member = { .name = "dispatches", .kind = AUDIT_JSON };

	(void)arg;
	for (size_t i = 0; i < n; i++) {
		buf_put(&list, i == 0 ? "[" : ",", 1);
		canon_put_string(&list, ids[i], strlen(ids[i]));
	}
	buf_put(&list, "]", 2);
	if (buf_failed(&list))
		return err_set(err, ENOMEM, "out of memory");
	member.text = (const char *)list.data;
	return operator_note("dispatch.pruned", &member, 1, err);
}

static void
print(const struct said *said, const struct dispatch_pruned *p)
{
	char size[NUM_TEXT_MAX];

	printf("%s %llu dispatch%s, and %llu blob%s (%s) that nothing refers to\n",
	       said->dry_run ? "there would go" : "removed", (unsigned long long)p->dispatches,
	       p->dispatches == 1 ? "" : "es", (unsigned long long)p->blobs, p->blobs == 1 ? "" : "s",
	       num_format_size(size, p->bytes));
}

int
proc_prune(const struct said *said)
{
	const struct dispatch_pruning how = { .older_ms = said->older_ms, .keep = said->keep,
	                                      .dry_run = said->dry_run, .note = note };
	OWN(registry_closep) struct registry *reg = NULL;
	struct dispatch_pruned pruned = {0};
	struct err err = {0};
	int r;

	if (said->n_words > 0)
		return proc_failf("'prune' takes no argument: remove '%.64s', and choose with --older and "
		                  "--keep", said->words[0]);
	r = registry_open(false, &reg, &err);
	if (r == 0)
		r = dispatch_prune(reg, &how, &pruned, &err);
	if (r < 0 && r != -ENOENT)
		return tell_error(&err);
	if (said->json)
		return proc_print_json(json_pack("{s:I,s:I,s:I}", "dispatches",
		                                 (json_int_t)pruned.dispatches, "blobs",
		                                 (json_int_t)pruned.blobs, "bytes",
		                                 (json_int_t)pruned.bytes), &err);
	print(said, &pruned);
	return 0;
}
