/* proof_json.c - proofs as JSON: see proof.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "audit/fields.h"
#include "audit/proof.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"
#include "canon/hash.h"

/* ---- writing ---- */

static void
put_hex(struct buf *b, const char *before, const unsigned char hash[AUDIT_HASH])
{
	char hex[AUDIT_HEX + 1];

	buf_put_text(b, before);
	codec_hex(hash, AUDIT_HASH, hex);
	buf_put_text(b, hex);
}

static void
put_number(struct buf *b, const char *before, uint64_t n)
{
	buf_put_text(b, before);
	buf_put_decimal(b, n);
}

/* Writes the members of one, without its opening brace and first members. */
static void
put_one(struct buf *b, const struct audit_proof *p)
{
	char base64[AUDIT_SIGNATURE_TEXT];

	put_hex(b, "\"checkpoint\":{\"key\":\"", p->key);
	put_hex(b, "\",\"root\":\"", p->root);
	audit_signature_put(p->signature, base64);
	buf_put_text(b, "\",\"signature\":\"");
	buf_put(b, base64, sizeof(base64));
	put_number(b, "\",\"size\":", p->size);
	buf_put_text(b, ",\"time\":\"");
	buf_put_text(b, p->time);
	buf_put_text(b, "\"},\"format\":\"" AUDIT_PROOF_FORMAT "\"");
	put_number(b, ",\"index\":", p->index);
	buf_put_text(b, ",\"path\":[");
	for (size_t i = 0; i < p->n_path; i++) {
		put_hex(b, i == 0 ? "\"" : ",\"", p->path[i]);
		buf_put_text(b, "\"");
	}
	buf_put_text(b, "],\"record\":");
	canon_put_string(b, p->record, p->len);
	buf_put_text(b, ",\"timeline\":\"");
	buf_put_text(b, p->timeline);
	buf_put_text(b, "\"}");
}

void
audit_proof_put(struct buf *b, const struct audit_proof *proof, const struct audit_proof *anchor)
{
	buf_put_text(b, "{\"anchor\":");
	if (anchor != NULL) {
		buf_put_text(b, "{");
		put_one(b, anchor);
	} else {
		buf_put_text(b, "null");
	}
	buf_put_text(b, ",");
	put_one(b, proof);
	buf_put_text(b, "\n");
}

/* ---- reading ---- */

static int
bad(const char *what, struct err *err)
{
	return err_set(err, EBADMSG, "this is no proof: its %s is missing, or none", what);
}

static int
read_checkpoint(struct http_text object, struct audit_proof *p, struct err *err)
{
	struct json_walk_item item;

	if (!audit_field_hash(object, "key", p->key))
		return bad("checkpoint's key", err);
	if (!audit_field_hash(object, "root", p->root))
		return bad("checkpoint's root", err);
	if (!audit_field(object, "signature", JSON_WALK_STRING, &item) ||
	    item.raw.len != AUDIT_SIGNATURE_TEXT || !audit_signature_get(item.raw.at, p->signature))
		return bad("checkpoint's signature", err);
	if (!audit_field_number(object, "size", &p->size))
		return bad("checkpoint's size", err);
	if (!audit_field_text(object, "time", p->time, sizeof(p->time)) || strlen(p->time) != AUDIT_TIME_LEN)
		return bad("checkpoint's time", err);
	return 0;
}

static int
read_path(struct http_text array, struct audit_proof *p, struct err *err)
{
	struct json_walk_item item;
	struct json_walk w;

	json_walk_begin(&w, array);
	(void)json_walk_next(&w, &item);
	while (json_walk_next(&w, &item) == 1 && item.kind != JSON_WALK_CLOSE) {
		if (p->n_path == AUDIT_PATH_MAX || item.kind != JSON_WALK_STRING ||
		    item.raw.len != AUDIT_HEX || !codec_unhex_lower(item.raw.at, p->path[p->n_path], AUDIT_HASH))
			return bad("path", err);
		p->n_path++;
	}
	return 0;
}

static int
read_record(struct http_text raw, struct audit_proof *p, struct err *err)
{
	p->record = malloc(raw.len + 1);
	if (p->record == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (json_walk_decode(raw, p->record, raw.len, &p->len) < 0)
		return bad("record", err);
	p->record[p->len] = '\0';
	return 0;
}

static int
read_one(struct http_text object, struct audit_proof *p, struct err *err)
{
	struct json_walk_item item;
	char format[32];
	int r;

	if (!audit_field_text(object, "format", format, sizeof(format)) ||
	    strcmp(format, AUDIT_PROOF_FORMAT) != 0)
		return bad("format", err);
	if (!audit_field(object, "checkpoint", JSON_WALK_OBJECT, &item))
		return bad("checkpoint", err);
	r = read_checkpoint(item.raw, p, err);
	if (r < 0)
		return r;
	if (!audit_field_number(object, "index", &p->index))
		return bad("index", err);
	if (!audit_field_text(object, "timeline", p->timeline, sizeof(p->timeline)))
		return bad("timeline", err);
	if (!audit_field(object, "path", JSON_WALK_ARRAY, &item))
		return bad("path", err);
	r = read_path(item.raw, p, err);
	if (r < 0)
		return r;
	return audit_field(object, "record", JSON_WALK_STRING, &item) ? read_record(item.raw, p, err) :
	       bad("record", err);
}

int
audit_proof_read(const char *text, size_t len, struct audit_proof *ret_proof,
                 struct audit_proof *ret_anchor, struct err *err)
{
	OWN(audit_proof_free) struct audit_proof proof = {0}, anchor = {0};
	struct http_text all = { text, len };
	struct json_walk_item item;
	int r = len > AUDIT_PROOF_MAX ? err_set(err, EFBIG, "a proof is not that long") :
	        read_one(all, &proof, err);

	if (r == 0 && audit_field(all, "anchor", JSON_WALK_OBJECT, &item))
		r = read_one(item.raw, &anchor, err);
	else if (r == 0 && !audit_field(all, "anchor", JSON_WALK_NULL, &item))
		r = bad("anchor", err);
	if (r < 0)
		return r;
	*ret_proof = proof;
	*ret_anchor = anchor;
	proof.record = anchor.record = NULL;
	return 0;
}
