/* record.c - reads records: see record.h. */
#include "audit/record.h"

#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/text.h"
#include "canon/canon_check.h"

#define CELL_ID_MAX 24                  /* longer than any id */

struct cursor {
	const char *from, *at, *end;
};

static int
bad(const struct cursor *c, const char *what, struct err *err)
{
	return err_set(err, EBADMSG, "%s at byte %zu of the line", what, (size_t)(c->at - c->from) + 1);
}

static bool
take(struct cursor *c, const char *text)
{
	return text_take(&c->at, c->end, text);
}

static bool
take_hex(struct cursor *c, unsigned char *ret_bytes, size_t len)
{
	if ((size_t)(c->end - c->at) < 2 * len || !codec_unhex_lower(c->at, ret_bytes, len))
		return false;
	c->at += 2 * len;
	return true;
}

static bool
take_number(struct cursor *c, uint64_t *ret_n)
{
	const char *from = c->at;
	uint64_t n = 0;

	while (c->at < c->end && *c->at >= '0' && *c->at <= '9' && c->at - from < 17)
		n = n * 10 + (uint64_t)(*c->at++ - '0');
	if (c->at == from || (*from == '0' && c->at - from > 1) || n > CANON_CHECK_NUMBER_MAX) {
		c->at = from;
		return false;
	}
	*ret_n = n;
	return true;
}

/* The id of a cell, between quotes. */
static bool
take_id(struct cursor *c, char ret_timeline[AUDIT_TIMELINE_MAX])
{
	const char *from = c->at;
	size_t len;

	while (c->at < c->end && ((*c->at >= 'a' && *c->at <= 'z') || (*c->at >= 'A' && *c->at <= 'Z') ||
	                          (*c->at >= '0' && *c->at <= '9')))
		c->at++;
	len = (size_t)(c->at - from);
	if (len == 0 || len > CELL_ID_MAX)
		return false;
	memcpy(ret_timeline, "cell/", 5);
	memcpy(ret_timeline + 5, from, len);
	ret_timeline[5 + len] = '\0';
	return true;
}

static bool
take_time(struct cursor *c, struct http_text *ret_time)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";

	if (c->end - c->at < AUDIT_TIME_LEN)
		return false;
	for (int i = 0; i < AUDIT_TIME_LEN; i++)
		if (form[i] == 'd' ? c->at[i] < '0' || c->at[i] > '9' : c->at[i] != form[i])
			return false;
	*ret_time = (struct http_text){ c->at, AUDIT_TIME_LEN };
	c->at += AUDIT_TIME_LEN;
	return true;
}

static int
take_event(struct cursor *c, struct audit_record *record, struct err *err)
{
	static const char type[] = ",\"type\":\"checkpoint\"}";
	const char *from = c->at, *behind, *where;
	size_t len;

	if (!take(c, "{"))
		return bad(c, "the event is no object", err);
	behind = canon_check_value(from, c->end, &where);
	if (behind == NULL) {
		c->at = where;
		return bad(c, "the event is not canonical", err);
	}
	len = (size_t)(behind - from);
	record->event = (struct http_text){ from, len };
	/* Unescaped quotes are outside strings, and one brace ends the outermost object. */
	record->is_checkpoint = len >= sizeof(type) &&
		memcmp(behind - (sizeof(type) - 1), type, sizeof(type) - 1) == 0;
	c->at = behind;
	return 0;
}

int
audit_record_read(const char *line, size_t len, struct audit_record *ret_record, struct err *err)
{
	struct cursor c = { line, line, line + len };
	struct audit_record record = {0};
	bool is_cell = take(&c, "{\"cell\":\"");
	int r;

	if (len > AUDIT_LINE_MAX)
		return err_set(err, EBADMSG, "the line is over %d bytes", AUDIT_LINE_MAX);
	if (is_cell && (!take_id(&c, record.timeline) || !take(&c, "\",")))
		return bad(&c, "there is no cell's id", err);
	if (!is_cell && !take(&c, "{"))
		return bad(&c, "this is no record", err);
	if (!take(&c, "\"event\":"))
		return bad(&c, "there is no event", err);
	r = take_event(&c, &record, err);
	if (r < 0)
		return r;
	if (!is_cell && !take(&c, ",\"log\":\"" AUDIT_OPERATOR "\""))
		return bad(&c, "there is neither a cell nor a log", err);
	if (!is_cell)
		memcpy(record.timeline, AUDIT_OPERATOR, sizeof(AUDIT_OPERATOR));
	if (!take(&c, ",\"n\":") || !take_number(&c, &record.n) || record.n == 0)
		return bad(&c, "there is no number", err);
	if (!take(&c, ",\"prev\":\"") || !take_hex(&c, record.prev, AUDIT_HASH) || !take(&c, "\""))
		return bad(&c, "there is no hash of the record before", err);
	if (!take(&c, ",\"time\":\"") || !take_time(&c, &record.time) || !take(&c, "\""))
		return bad(&c, "there is no time", err);
	if (!take(&c, "}") || c.at != c.end)
		return bad(&c, "there is more than a record", err);
	*ret_record = record;
	return 0;
}

/* ---- checkpoints ---- */

static bool
take_tree(struct cursor *c, struct audit_tree *tree)
{
	size_t n = audit_tree_peaks(tree->size);

	for (size_t i = 0; i < n; i++)
		if (!take(c, i == 0 ? "\"" : ",\"") || !take_hex(c, tree->peak[i], AUDIT_HASH) ||
		    !take(c, "\""))
			return false;
	return true;
}

int
audit_checkpoint_read(const struct audit_record *record,
                      struct audit_checkpoint *ret_checkpoint, struct err *err)
{
	struct cursor c = { record->event.at, record->event.at, record->event.at + record->event.len };
	unsigned char root[AUDIT_HASH];
	struct audit_checkpoint *p = ret_checkpoint;

	p->tree.size = 0;
	if (!take(&c, "{\"key\":\"") || !take_hex(&c, p->key, AUDIT_KEY))
		return err_set(err, EBADMSG, "the checkpoint has no key");
	if (!take(&c, "\",\"root\":\"") || !take_hex(&c, p->root, AUDIT_HASH))
		return err_set(err, EBADMSG, "the checkpoint has no root");
	if (!take(&c, "\",\"signature\":\"") || c.end - c.at < AUDIT_SIGNATURE_TEXT ||
	    !audit_signature_get(c.at, p->signature))
		return err_set(err, EBADMSG, "the checkpoint has no signature");
	c.at += AUDIT_SIGNATURE_TEXT;
	if (!take(&c, "\",\"size\":") || !take_number(&c, &p->tree.size))
		return err_set(err, EBADMSG, "the checkpoint has no size");
	if (!take(&c, ",\"tree\":[") || !take_tree(&c, &p->tree) ||
	    !take(&c, "],\"type\":\"checkpoint\"}") || c.at != c.end)
		return err_set(err, EBADMSG, "the checkpoint has no tree of its size");
	audit_tree_root(&p->tree, root);
	if (memcmp(root, p->root, AUDIT_HASH) != 0)
		return err_set(err, EBADMSG, "the checkpoint's tree has another root");
	return 0;
}

bool
audit_checkpoint_is_signed(const struct audit_record *record,
                           const struct audit_checkpoint *checkpoint)
{
	char text[AUDIT_CHECKPOINT_TEXT_MAX];
	size_t len = audit_checkpoint_text(text, record->timeline, checkpoint->tree.size,
	                                   checkpoint->root, record->time.at);

	return audit_key_verify(checkpoint->key, text, len, checkpoint->signature);
}
