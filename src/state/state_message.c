/* state_message.c - writes and reads the text of a commit object.
 *
 *   tree ID                        git's id of the tree
 *   parent ID                      for each
 *   author NAME <ADDRESS> TIME +0000
 *   committer cloister <operator@cloister.invalid> TIME +0000
 *   gpgsig ...                     the signature of the text without this header; its further lines begin with a blank
 *
 *   SUBJECT
 *
 *   Cell: ID                       and further lines of this form; the last is
 *   Tree-SHA256: SUM */
#include <errno.h>
#include <inttypes.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"
#include "base/utf8.h"
#include "state/state_parts.h"

#define SIGNATURE "gpgsig "
#define SUM_KEY "Tree-SHA256"
#define COMMITTER "cloister <" STATE_SIGNER ">"

void
state_text_free(struct state_text *t)
{
	free(t->author);
	free(t->message);
	free(t->signature);
	*t = (struct state_text){0};
}

void
state_text_id(const char *text, size_t len, char ret_id[STATE_ID + 1])
{
	unsigned char digest[SHA1_DIGEST_SIZE];
	struct sha1_ctx sha;
	char head[40];

	snprintf(head, sizeof(head), "commit %zu", len);
	sha1_init(&sha);
	sha1_update(&sha, strlen(head) + 1, (const uint8_t *)head);
	sha1_update(&sha, len, (const uint8_t *)text);
	sha1_digest(&sha, sizeof(digest), digest);
	codec_hex(digest, sizeof(digest), ret_id);
}

/* ---- writing ---- */

/* One line: what is not printable becomes '?'.  In a name, what git uses around addresses too. */
static void
put_line(struct buf *b, const char *text, bool is_name)
{
	size_t len = strnlen(text, STATE_TEXT_MAX), n;
	uint32_t code;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_next(text + i, len - i, &code);
		if (n == 0 || utf8_is_control(code) || (is_name && strchr("<>\"\\", text[i]) != NULL)) {
			n = n == 0 ? 1 : n;
			buf_put_text(b, "?");
		} else {
			buf_put(b, text + i, n);
		}
	}
}

static void
put_field(struct buf *b, const char *key, const char *value)
{
	if (value == NULL || *value == '\0')
		return;
	buf_put_text(b, key);
	buf_put_text(b, ": ");
	put_line(b, value, false);
	buf_put_text(b, "\n");
}

static void
put_message(struct buf *b, const struct state_text *t, const struct state_author *a)
{
	char position[AUDIT_SIGNATURE_TEXT + 32];

	put_line(b, a->subject != NULL && *a->subject != '\0' ? a->subject : "State", false);
	buf_put_text(b, "\n\n");
	put_field(b, "Reason", a->reason);
	put_field(b, "Who", a->who);
	put_field(b, "Cell", a->cell);
	put_field(b, "Cell-Name", a->cell_name);
	put_field(b, "On-Behalf-Of", a->behalf);
	put_field(b, "Dispatch", a->dispatch);
	put_field(b, "Grant", a->grant);
	if (a->timeline != NULL) {
		put_field(b, "Timeline", a->timeline);
		snprintf(position, sizeof(position), "%" PRIu64 "%s%.64s", a->timeline_n, a->timeline_head != NULL ? " " : "",
		         a->timeline_head != NULL ? a->timeline_head : "");
		put_field(b, "Timeline-Position", position);
	}
	put_field(b, "Review", a->review);
	put_field(b, "Flags", a->flags);
	put_field(b, SUM_KEY, t->sum);
}

/* The headers up to the signature. */
static void
put_headers(struct buf *b, const struct state_text *t, const struct state_author *a)
{
	char time_text[40];

	snprintf(time_text, sizeof(time_text), " %lld +0000\n", (long long)t->time);
	buf_put_text(b, "tree ");
	buf_put_text(b, t->tree);
	for (size_t i = 0; i < t->n_parents; i++) {
		buf_put_text(b, "\nparent ");
		buf_put_text(b, t->parents[i]);
	}
	buf_put_text(b, "\nauthor ");
	if (a->cell != NULL) {
		put_line(b, a->cell_name != NULL && *a->cell_name != '\0' ? a->cell_name : a->cell, true);
		buf_put_text(b, " <");
		put_line(b, a->cell, true);
		buf_put_text(b, "@cell.cloister.invalid>");
	} else {
		put_line(b, a->who != NULL && *a->who != '\0' ? a->who : "operator", true);
		buf_put_text(b, " <" STATE_SIGNER ">");
	}
	buf_put_text(b, time_text);
	buf_put_text(b, "committer " COMMITTER);
	buf_put_text(b, time_text);
}

int
state_text_put(struct buf *b, const struct state_text *t, const struct state_author *author, const struct audit_key *key,
               struct err *err)
{
	OWN(buf_free) struct buf head = BUF(STATE_OBJECT_MAX), message = BUF(STATE_OBJECT_MAX), plain = BUF(STATE_OBJECT_MAX),
	                         armor = BUF(STATE_OBJECT_MAX);

	put_headers(&head, t, author);
	put_message(&message, t, author);
	buf_put(&plain, head.data, head.len);
	buf_put_text(&plain, "\n");
	buf_put(&plain, message.data, message.len);
	state_sign(key, plain.data, plain.len, &armor);
	buf_put(b, head.data, head.len);
	buf_put_text(b, SIGNATURE);
	for (size_t i = 0; i < armor.len; i++) {
		buf_put(b, armor.data + i, 1);
		if (armor.data[i] == '\n' && i + 1 < armor.len)
			buf_put_text(b, " ");
	}
	buf_put_text(b, "\n");
	buf_put(b, message.data, message.len);
	return buf_failed(b) || buf_failed(&plain) || buf_failed(&armor) ?
	       err_set(err, ENOMEM, "the text of a commit is too long") : 0;
}

/* ---- reading ---- */

struct reader {
	const char *at, *end;
};

/* The next line, without its newline; NULL at the end. */
static const char *
next_line(struct reader *r, size_t *ret_len)
{
	const char *line = r->at, *nl = memchr(r->at, '\n', (size_t)(r->end - r->at));

	if (nl == NULL)
		return NULL;
	*ret_len = (size_t)(nl - line);
	r->at = nl + 1;
	return line;
}

static bool
begins(const char *line, size_t len, const char *word)
{
	return len >= strlen(word) && memcmp(line, word, strlen(word)) == 0;
}

static bool
take_id(const char *line, size_t len, const char *word, char ret_id[STATE_ID + 1])
{
	char id[STATE_ID + 1];

	if (!begins(line, len, word) || len != strlen(word) + STATE_ID)
		return false;
	memcpy(id, line + strlen(word), STATE_ID);
	id[STATE_ID] = '\0';
	if (!state_is_id(id))
		return false;
	memcpy(ret_id, id, sizeof(id));
	return true;
}

/* "author NAME <ADDRESS> TIME +0000" */
static bool
take_author(const char *line, size_t len, struct state_text *t)
{
	const char *end = memrchr(line, '>', len);
	size_t skip = strlen("author ");
	long long seconds = 0;
	const char *p;

	if (!begins(line, len, "author ") || end == NULL || end < line + skip)
		return false;
	p = end + 1;
	if (p >= line + len || *p++ != ' ')
		return false;
	for (; p < line + len && *p >= '0' && *p <= '9' && seconds < INT64_MAX / 100; p++)
		seconds = seconds * 10 + (*p - '0');
	if (!begins(p, (size_t)(line + len - p), " +0000"))
		return false;
	t->time = seconds;
	t->author = strndup(line + skip, (size_t)(end + 1 - line) - skip);
	return t->author != NULL;
}

/* The header that begins at LINE, with its further lines. */
static bool
take_signature(struct reader *r, const char *text, const char *line, size_t len, struct state_text *t)
{
	OWN(buf_free) struct buf armor = BUF(STATE_OBJECT_MAX);

	t->signature_at = (size_t)(line - text);
	buf_put(&armor, line + strlen(SIGNATURE), len - strlen(SIGNATURE));
	buf_put_text(&armor, "\n");
	while (r->at < r->end && *r->at == ' ') {
		line = next_line(r, &len);
		if (line == NULL)
			return false;
		buf_put(&armor, line + 1, len - 1);
		buf_put_text(&armor, "\n");
	}
	t->signature_end = (size_t)(r->at - text);
	if (buf_failed(&armor) || memchr(armor.data, '\0', armor.len) != NULL)
		return false;
	t->signature = strndup((const char *)armor.data, armor.len);
	return t->signature != NULL;
}

static bool
read_text(const char *text, size_t text_len, struct state_text *t)
{
	struct reader r = { text, text + text_len };
	const char *line, *sum;
	size_t len;

	line = next_line(&r, &len);
	if (line == NULL || !take_id(line, len, "tree ", t->tree))
		return false;
	while ((line = next_line(&r, &len)) != NULL && begins(line, len, "parent "))
		if (t->n_parents == STATE_PARENTS_MAX || !take_id(line, len, "parent ", t->parents[t->n_parents++]))
			return false;
	if (line == NULL || !take_author(line, len, t))
		return false;
	line = next_line(&r, &len);
	if (line == NULL || !begins(line, len, "committer "))
		return false;
	line = next_line(&r, &len);
	if (line != NULL && begins(line, len, SIGNATURE)) {
		if (!take_signature(&r, text, line, len, t))
			return false;
		line = next_line(&r, &len);
	}
	if (line == NULL || len != 0 || memchr(r.at, '\0', (size_t)(r.end - r.at)) != NULL)
		return false;
	t->message = strndup(r.at, (size_t)(r.end - r.at));
	if (t->message == NULL)
		return false;
	sum = state_text_field(t, SUM_KEY, &len);
	if (sum == NULL || len != STATE_SUM || strspn(sum, "0123456789abcdef") < STATE_SUM)
		return false;
	memcpy(t->sum, sum, STATE_SUM);
	return true;
}

int
state_text_read(const char *text, size_t len, struct state_text *ret, struct err *err)
{
	struct state_text t = {0};

	if (len > STATE_OBJECT_MAX || !read_text(text, len, &t)) {
		state_text_free(&t);
		return err_set(err, EBADMSG, "it is no commit that cloister wrote");
	}
	*ret = t;
	return 0;
}

bool
state_text_is_signed(const struct state_text *t, const char *text, size_t len, const unsigned char key[AUDIT_KEY])
{
	OWN(buf_free) struct buf plain = BUF(STATE_OBJECT_MAX);

	if (t->signature == NULL)
		return false;
	buf_put(&plain, text, t->signature_at);
	buf_put(&plain, text + t->signature_end, len - t->signature_end);
	return !buf_failed(&plain) &&
	       state_verify_signature(key, plain.data, plain.len, t->signature, strlen(t->signature));
}

const char *
state_text_field(const struct state_text *t, const char *key, size_t *ret_len)
{
	const char *fields = strstr(t->message, "\n\n"), *found = NULL;
	size_t len = strlen(key);

	/* The last counts: it cannot be in a value, which has no newline. */
	for (const char *line = fields == NULL ? NULL : fields + 2; line != NULL && *line != '\0';
	     line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
		if (strncmp(line, key, len) == 0 && strncmp(line + len, ": ", 2) == 0) {
			found = line + len + 2;
			*ret_len = strcspn(found, "\n");
		}
	}
	return found;
}
