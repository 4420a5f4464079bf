/* verify.c - see verify.h. */
#include "audit/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

const char *
audit_fault_name(enum audit_fault fault)
{
	static const char *const names[] = { "sound", "changed", "removed", "added", "reordered",
	                                     "truncated", "swapped", "missing", "unreadable", "untied" };

	return names[fault];
}

static int __attribute__((format(printf, 4, 5)))
found(struct audit_verify *v, enum audit_fault fault, uint64_t n, const char *fmt, ...)
{
	va_list args;

	v->fault = fault;
	v->fault_n = n;
	va_start(args, fmt);
	vsnprintf(v->finding, sizeof(v->finding), fmt, args);
	va_end(args);
	return -EBADMSG;
}

/* ---- checkpoints ---- */

/* The first record may be a checkpoint, if those before it were dropped. */
static int
begin(struct audit_verify *v, const struct audit_record *record)
{
	struct audit_checkpoint checkpoint;

	if (v->timeline[0] == '\0')
		memcpy(v->timeline, record->timeline, sizeof(v->timeline));
	v->first = record->n;
	memcpy(v->first_hash, v->failed_hash, AUDIT_HASH);
	if (record->n == 1)
		return 0;
	if (!record->is_checkpoint || audit_checkpoint_read(record, &checkpoint, NULL) < 0 ||
	    checkpoint.tree.size != record->n - 1)
		return found(v, AUDIT_REMOVED, 1, "the first record there is has number %" PRIu64
		             ": those before it were removed", record->n);
	v->chain.tree = checkpoint.tree;
	memcpy(v->chain.head, record->prev, AUDIT_HASH);
	return 0;
}

static int
check_checkpoint(struct audit_verify *v, const struct audit_record *record)
{
	struct audit_checkpoint checkpoint;
	unsigned char root[AUDIT_HASH];
	struct err err = {0};

	if (audit_checkpoint_read(record, &checkpoint, &err) < 0)
		return found(v, AUDIT_CHANGED, record->n, "%s", err.text);
	if (checkpoint.tree.size != record->n - 1)
		return found(v, AUDIT_CHANGED, record->n, "the checkpoint is not for the records before it");
	if (!v->has_key && v->pick != NULL)
		v->pick(v, checkpoint.key);
	if (!v->has_key) {
		memcpy(v->key, checkpoint.key, AUDIT_KEY);
		v->has_key = true;
	}
	audit_tree_root(&v->chain.tree, root);
	if (memcmp(root, checkpoint.root, AUDIT_HASH) != 0)
		return found(v, AUDIT_CHANGED, record->n, "the checkpoint is for other records: of those "
		             "from %" PRIu64 " to %" PRIu64 " some were changed, and the hashes of what "
		             "follows made to fit", v->signed_n + 1, record->n - 1);
	if (!audit_checkpoint_is_signed(record, &checkpoint))
		return found(v, AUDIT_CHANGED, record->n, "the checkpoint's signature does not hold: "
		             "it, or some of the records from %" PRIu64 " on, was changed",
		             v->signed_n + 1);
	/* Checked last: if one byte of the key changed, the key was not swapped. */
	if (memcmp(checkpoint.key, v->key, AUDIT_KEY) != 0)
		return found(v, AUDIT_SWAPPED, record->n, "the checkpoint is signed with another key "
		             "than this timeline's: it was written by somebody else");
	v->checkpoints++;
	v->signed_n = record->n;
	v->dropped = v->dropped_unsigned;
	return 0;
}

/* {"through":N,"type":"records.dropped"} */
static void
note_dropped(struct audit_verify *v, const struct audit_record *record)
{
	static const char front[] = "{\"through\":", back[] = ",\"type\":\"records.dropped\"}";
	const struct http_text *event = &record->event;
	size_t digits = event->len - (sizeof(front) - 1) - (sizeof(back) - 1);
	uint64_t n = 0;

	if (event->len < sizeof(front) + sizeof(back) - 1 || digits > 16 ||
	    memcmp(event->at, front, sizeof(front) - 1) != 0 ||
	    memcmp(event->at + event->len - (sizeof(back) - 1), back, sizeof(back) - 1) != 0)
		return;
	for (size_t i = 0; i < digits; i++) {
		char c = event->at[sizeof(front) - 1 + i];

		if (c < '0' || c > '9')
			return;
		n = n * 10 + (uint64_t)(c - '0');
	}
	if (n < record->n && n > v->dropped_unsigned)
		v->dropped_unsigned = n;
}

/* ---- records ---- */

static int
out_of_order(struct audit_verify *v, uint64_t want)
{
	uint64_t n = v->failed.n;

	v->refine = AUDIT_REFINE_ORDER;
	if (n > want && n == want + 1)
		return found(v, AUDIT_REMOVED, want, "record %" PRIu64 " was removed", want);
	if (n > want)
		return found(v, AUDIT_REMOVED, want, "the records from %" PRIu64 " to %" PRIu64
		             " were removed", want, n - 1);
	if (n < v->first)
		return found(v, AUDIT_REORDERED, n, "record %" PRIu64 " comes after record %" PRIu64, n,
		             want - 1);
	return found(v, AUDIT_ADDED, n, "record %" PRIu64 " is there once more, behind record %" PRIu64,
	             n, want - 1);
}

static int
check_place(struct audit_verify *v)
{
	const struct audit_record *record = &v->failed;
	uint64_t want = v->chain.tree.size + 1;

	if (strcmp(record->timeline, v->timeline) != 0) {
		v->refine = AUDIT_REFINE_OWNER;
		return found(v, AUDIT_SWAPPED, want, "this is a record of %s, not of %s", record->timeline,
		             v->timeline);
	}
	if (record->n != want)
		return out_of_order(v, want);
	if (memcmp(record->prev, v->chain.head, AUDIT_HASH) != 0) {
		v->refine = AUDIT_REFINE_PREV;
		return found(v, AUDIT_CHANGED, record->n, want == 1 ?
		             "the first record has a hash of one before it" :
		             "this record, or the one before it, was changed: their hashes do not agree");
	}
	return 0;
}

int
audit_verify_line(struct audit_verify *v, const char *line, size_t len)
{
	struct audit_record *record = &v->failed;
	struct err err = {0};
	int r = 0;

	if (audit_record_read(line, len, record, &err) < 0)
		return found(v, AUDIT_CHANGED, v->chain.tree.size + 1, "this is no record: %s", err.text);
	audit_hash_record(line, len, v->failed_hash);
	if (v->first == 0)
		r = begin(v, record);
	if (r == 0)
		r = check_place(v);
	if (r == 0 && record->is_checkpoint)
		r = check_checkpoint(v, record);
	if (r < 0)
		return r;
	if (v->anchor.is_there && v->anchor.n == record->n &&
	    memcmp(v->anchor.head, v->failed_hash, AUDIT_HASH) != 0)
		return found(v, AUDIT_CHANGED, record->n, "this is not the record that was noted "
		             "elsewhere when it was written");
	note_dropped(v, record);
	memcpy(v->chain.head, v->failed_hash, AUDIT_HASH);
	audit_tree_add(&v->chain.tree, v->failed_hash);
	return 0;
}

void
audit_verify_refine(struct audit_verify *v, const char *line, size_t len)
{
	uint64_t want = v->chain.tree.size + 1;
	struct audit_record next;
	bool follows;

	if (v->refine == AUDIT_REFINE_NOT || audit_record_read(line, len, &next, NULL) < 0)
		return;
	/* Whether the record in question matches the next record's hash of it. */
	follows = memcmp(next.prev, v->failed_hash, AUDIT_HASH) == 0;
	if (v->refine == AUDIT_REFINE_OWNER && strcmp(next.timeline, v->timeline) == 0)
		found(v, AUDIT_CHANGED, want, "the cell's id in this record was changed");
	else if (v->refine == AUDIT_REFINE_PREV && follows && want > 1) {
		found(v, AUDIT_CHANGED, want - 1, "this record was changed: the one behind it has "
		      "another hash of it");
		v->about_before = true;
	} else if (v->refine == AUDIT_REFINE_PREV)
		found(v, AUDIT_CHANGED, want, "this record was changed");
	else if (v->refine == AUDIT_REFINE_ORDER && next.n == want && v->failed.n > want)
		found(v, AUDIT_REORDERED, want, "record %" PRIu64 " comes after record %" PRIu64, next.n,
		      v->failed.n);
	else if (v->refine == AUDIT_REFINE_ORDER &&
	         memcmp(v->failed.prev, v->chain.head, AUDIT_HASH) == 0)
		found(v, AUDIT_CHANGED, want, "the number of this record was changed");
	v->refine = AUDIT_REFINE_NOT;
}

int
audit_verify_end(struct audit_verify *v)
{
	uint64_t n = v->chain.tree.size;

	if (v->first > 1 && v->dropped < v->first - 1)
		return found(v, AUDIT_REMOVED, 1, "the records from 1 to %" PRIu64 " were removed, and it "
		             "is not said that they were dropped", v->first - 1);
	if (!v->has_key && v->pick != NULL)
		v->pick(v, NULL);
	if (!v->anchor.is_there)
		return 0;
	if (n > 0 && n == v->anchor.n && memcmp(v->anchor.head, v->chain.head, AUDIT_HASH) != 0)
		return found(v, AUDIT_CHANGED, n, "this is not the record that was noted elsewhere when it "
		             "was written");
	if (n < v->anchor.n)
		return found(v, AUDIT_TRUNCATED, n + 1, "the last records are missing: there were %" PRIu64
		             ", and %" PRIu64 " are left", v->anchor.n, n);
	if (v->anchor.is_end && n > v->anchor.n)
		return found(v, AUDIT_ADDED, v->anchor.n + 1, "there are records behind the last one, "
		             "%" PRIu64, v->anchor.n);
	return 0;
}
