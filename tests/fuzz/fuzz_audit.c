/* fuzz_audit.c - bytes that may be a timeline: whatever they are, the verifier tells; and what it
 * calls sound can be neither written nor signed in another way. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "audit/cells.h"
#include "audit/verify.h"
#include "base/buf.h"
#include "base/own.h"
#include "canon/canon_check.h"
#include "fuzz.h"
#include "http/json_walk.h"

/* A record is what audit_record_put() makes of its parts. */
static void
write_again(const struct audit_record *record, const char *line, size_t len)
{
	struct audit_chain chain = { .tree.size = record->n - 1 };
	OWN(buf_free) struct buf b;
	char time[AUDIT_TIME_LEN + 1] = "";

	memcpy(chain.head, record->prev, AUDIT_HASH);
	memcpy(time, record->time.at, AUDIT_TIME_LEN);
	buf_init(&b, AUDIT_LINE_MAX + 1);
	audit_record_put(&b, &chain, record->timeline, time, record->event.at, record->event.len);
	assert(!buf_failed(&b) && b.len == len + 1 && memcmp(b.data, line, len) == 0);
}

static void
check_line(const char *line, size_t len)
{
	struct audit_checkpoint checkpoint;
	struct audit_record record;
	struct json_walk_item item;
	struct json_walk w;
	int r;

	if (audit_record_read(line, len, &record, NULL) < 0)
		return;
	write_again(&record, line, len);
	assert(canon_check_object(line, len));
	/* What is canonical is JSON, says another reader. */
	json_walk_begin(&w, (struct http_text){ line, len });
	while ((r = json_walk_next(&w, &item)) == 1)
		;
	assert(r != -EBADMSG);
	if (record.is_checkpoint && audit_checkpoint_read(&record, &checkpoint, NULL) == 0)
		(void)audit_checkpoint_is_signed(&record, &checkpoint);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(audit_cells_free) struct audit_cells cells = {0};
	const char *at = (const char *)data, *end = at + size, *line_end;
	struct audit_verify *v = calloc(1, sizeof(*v));
	int r = 0;

	assert(v != NULL);
	for (; at < end; at = line_end + 1) {
		line_end = memchr(at, '\n', (size_t)(end - at));
		if (line_end == NULL)
			break;
		check_line(at, (size_t)(line_end - at));
		if (r < 0) {
			audit_verify_refine(v, at, (size_t)(line_end - at));
			break;
		}
		r = audit_verify_line(v, at, (size_t)(line_end - at));
		if (r == 0)
			assert(audit_cells_note(&cells, &v->failed) == 0);
	}
	if (r == 0)
		r = audit_verify_end(v);
	assert((r < 0) == (v->fault != AUDIT_SOUND) && (r == 0 || v->finding[0] != '\0'));
	free(v);
	return 0;
}
