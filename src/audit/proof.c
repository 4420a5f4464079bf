/* proof.c - makes and checks proofs: see proof.h. */
#include "audit/proof.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "audit/cells.h"
#include "audit/reader.h"
#include "base/err.h"
#include "base/own.h"

void
audit_proof_free(struct audit_proof *proof)
{
	free(proof->record);
	proof->record = NULL;
}

/* ---- making ---- */

struct maker {
	struct audit_path path;
	struct audit_proof *proof;
	uint64_t n;
	bool begun;
};

static int
keep_record(struct maker *m, const char *line, size_t len)
{
	m->proof->record = strndup(line, len);
	m->proof->len = len;
	return m->proof->record == NULL ? -ENOMEM : 0;
}

static void
keep_checkpoint(struct maker *m, const struct audit_record *record,
                const struct audit_checkpoint *checkpoint)
{
	struct audit_proof *p = m->proof;

	memcpy(p->timeline, record->timeline, sizeof(p->timeline));
	memcpy(p->time, record->time.at, AUDIT_TIME_LEN);
	memcpy(p->key, checkpoint->key, AUDIT_KEY);
	memcpy(p->root, checkpoint->root, AUDIT_HASH);
	memcpy(p->signature, checkpoint->signature, AUDIT_SIGNATURE);
	p->size = checkpoint->tree.size;
	p->index = m->n - 1;
}

/* 1: this is the checkpoint after the record. */
static int
make_line(struct maker *m, const char *line, size_t len, struct err *err)
{
	unsigned char hash[AUDIT_HASH], root[AUDIT_HASH];
	struct audit_checkpoint checkpoint;
	struct audit_record record;
	int r = audit_record_read(line, len, &record, err);

	if (r == 0 && record.is_checkpoint)
		r = audit_checkpoint_read(&record, &checkpoint, err);
	if (r < 0)
		return r;
	if (!m->begun && record.n > 1 && record.is_checkpoint)
		m->path.tree = checkpoint.tree; /* the records before it were dropped */
	m->begun = true;
	if (record.n != m->path.tree.size + 1)
		return err_set(err, EBADMSG, "record %" PRIu64 " is not where it should be", record.n);
	if (record.n > m->n && m->proof->record == NULL)
		return err_set(err, ENOENT, "record %" PRIu64 " was dropped", m->n);
	if (record.n > m->n && record.is_checkpoint) {
		audit_path_end(&m->path, root);
		memcpy(m->proof->path, m->path.hash, sizeof(m->proof->path));
		m->proof->n_path = m->path.n;
		keep_checkpoint(m, &record, &checkpoint);
		return 1;
	}
	if (record.n == m->n && keep_record(m, line, len) < 0)
		return err_set(err, ENOMEM, "out of memory");
	audit_hash_record(line, len, hash);
	audit_path_add(&m->path, hash);
	return 0;
}

int
audit_proof_make(int dir, const char *name, uint64_t n, struct audit_proof *ret_proof,
                 struct err *err)
{
	OWN(audit_reader_close) struct audit_reader r = {0};
	OWN(audit_proof_free) struct audit_proof proof = {0};
	struct maker m = { .proof = &proof, .n = n };
	const char *line;
	size_t len;
	int code = audit_reader_open(&r, dir, name, err), done = 0;

	audit_path_begin(&m.path, n - 1);
	while (code >= 0 && done == 0 && (code = audit_reader_next(&r, &line, &len, err)) == 1) {
		done = make_line(&m, line, len, err);
		if (done < 0)
			return done == -EBADMSG ? err_wrap(err, "%s:%" PRIu64, r.file, r.line) : done;
	}
	if (code < 0)
		return code;
	if (done == 0 && proof.record == NULL)
		return err_set(err, ENOENT, "there is no record %" PRIu64 ": the last one is %" PRIu64, n,
		               m.path.tree.size);
	if (done == 0)
		return err_set(err, EAGAIN, "no checkpoint signs record %" PRIu64 " yet", n);
	code = audit_proof_check(&proof, NULL, proof.key, err);
	if (code < 0)
		return err_wrap(err, "the timeline is not sound");
	*ret_proof = proof;
	proof.record = NULL;
	return 0;
}

/* ---- checking ---- */

/* Checks one record in one timeline, whose checkpoint KEY signed. */
static int
check_one(const struct audit_proof *p, const unsigned char key[AUDIT_KEY],
          struct audit_record *ret_record, struct err *err)
{
	char text[AUDIT_CHECKPOINT_TEXT_MAX];
	unsigned char leaf[AUDIT_HASH];
	size_t len;
	int r = audit_record_read(p->record, p->len, ret_record, err);

	if (r < 0)
		return r;
	if (strcmp(ret_record->timeline, p->timeline) != 0 || ret_record->n != p->index + 1)
		return err_set(err, EBADMSG, "the record is not record %" PRIu64 " of %s", p->index + 1,
		               p->timeline);
	audit_hash_record(p->record, p->len, leaf);
	if (!audit_path_leads(leaf, p->index, p->size, (const unsigned char (*)[AUDIT_HASH])p->path,
	                      p->n_path, p->root))
		return err_set(err, EBADMSG, "the path does not lead from record %" PRIu64 " of %s to the "
		               "root", ret_record->n, p->timeline);
	if (memcmp(p->key, key, AUDIT_KEY) != 0)
		return err_set(err, EBADMSG, "the checkpoint of %s is signed with another key", p->timeline);
	len = audit_checkpoint_text(text, p->timeline, p->size, p->root, p->time);
	if (!audit_key_verify(key, text, len, p->signature))
		return err_set(err, EBADMSG, "the signature of %s does not hold", p->timeline);
	return 0;
}

/* Checks the operator's record, and the cell's key in it. */
static int
check_anchor(const struct audit_proof *anchor, const char *timeline,
             const unsigned char key[AUDIT_KEY], unsigned char ret_key[AUDIT_KEY],
             struct err *err)
{
	OWN(audit_cells_free) struct audit_cells cells = {0};
	const struct audit_cell *cell = NULL;
	struct audit_record record;
	int r = check_one(anchor, key, &record, err);

	if (r < 0)
		return r;
	if (audit_cells_note(&cells, &record) < 0)
		return err_set(err, ENOMEM, "out of memory");
	if (strncmp(timeline, "cell/", 5) == 0)
		cell = audit_cells_find(&cells, timeline + 5);
	if (strcmp(record.timeline, AUDIT_OPERATOR) != 0 || cell == NULL || cell->started_n == 0)
		return err_set(err, EBADMSG, "the anchor is not the operator's record of the start of %s",
		               timeline);
	memcpy(ret_key, cell->key, AUDIT_KEY);
	return 0;
}

int
audit_proof_check(const struct audit_proof *proof, const struct audit_proof *anchor,
                  const unsigned char key[AUDIT_KEY], struct err *err)
{
	unsigned char own[AUDIT_KEY];
	struct audit_record record;
	int r = 0;

	memcpy(own, key, AUDIT_KEY);
	if (anchor != NULL && anchor->record != NULL)
		r = check_anchor(anchor, proof->timeline, key, own, err);
	return r < 0 ? r : check_one(proof, own, &record, err);
}
