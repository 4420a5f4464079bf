/* fuzz_audit_proof.c - bytes that may be a proof: none is believed but by its key, and what is
 * read is written as it is understood. */
#include <assert.h>
#include <string.h>

#include "audit/proof.h"
#include "base/buf.h"
#include "base/own.h"
#include "fuzz.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(audit_proof_free) struct audit_proof proof = {0};
	OWN(audit_proof_free) struct audit_proof anchor = {0};
	OWN(audit_proof_free) struct audit_proof again = {0};
	OWN(audit_proof_free) struct audit_proof anchor_again = {0};
	OWN(buf_free) struct buf b;
	static const unsigned char nobody[AUDIT_KEY] = "a key that has signed nothing..";
	bool has_anchor;

	buf_init(&b, 4 * AUDIT_PROOF_MAX);
	if (audit_proof_read((const char *)data, size, &proof, &anchor, NULL) < 0)
		return 0;
	has_anchor = anchor.record != NULL;
	assert(audit_proof_check(&proof, &anchor, nobody, NULL) < 0);
	(void)audit_proof_check(&proof, &anchor, has_anchor ? anchor.key : proof.key, NULL);
	audit_proof_put(&b, &proof, has_anchor ? &anchor : NULL);
	assert(!buf_failed(&b));
	if (b.len > AUDIT_PROOF_MAX)
		return 0;
	/* A timeline's name may be anything here, and is written as it is. */
	if (audit_proof_read((const char *)b.data, b.len, &again, &anchor_again, NULL) < 0)
		return 0;
	assert((anchor_again.record != NULL) == has_anchor);
	if (strcmp(again.timeline, proof.timeline) == 0)
		assert(again.len == proof.len && memcmp(again.record, proof.record, proof.len) == 0 &&
		       again.index == proof.index && again.size == proof.size &&
		       again.n_path == proof.n_path && memcmp(again.path, proof.path, sizeof(proof.path)) == 0);
	return 0;
}
