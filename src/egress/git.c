/* git.c - refusals that git shows to its user.
 *
 * Git shows the body of an error only if it is plain text.  For a push, it shows only the report on
 * the refs. */
#include "egress/git.h"

#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "ipc/inspect_channel.h"

#define REPORT_MAX (32 * 1024)
#define REASON_SHOWN 240

/* ---- pushed refs ---- */

size_t
courier_git_refs(const char *pushed, char room[INSPECT_PUSHED_MAX],
                 const char *ret_refs[COURIER_GIT_REFS_MAX])
{
	size_t n = 0;
	char *rest = NULL;

	snprintf(room, INSPECT_PUSHED_MAX, "%s", pushed);
	/* The first word is about the push as a whole. */
	if (strtok_r(room, " ", &rest) == NULL)
		return 0;
	while (n < COURIER_GIT_REFS_MAX && (ret_refs[n] = strtok_r(NULL, " ", &rest)) != NULL)
		n++;
	return n;
}

bool
courier_git_has(const char *pushed, char flag)
{
	return pushed[0] != '\0' && memchr(pushed, flag, strcspn(pushed, " ")) != NULL;
}

/* ---- the report ---- */

/* One line of the protocol: its length in four digits, including themselves. */
static void
put_line(struct buf *b, const char *text, size_t len)
{
	char digits[8];

	snprintf(digits, sizeof(digits), "%04zx", len + 4);
	buf_put(b, digits, 4);
	buf_put(b, text, len);
}

/* Write REASON as part of a line, without anything that would begin another line. */
static void
make_reason(const char *reason, char ret_text[REASON_SHOWN])
{
	snprintf(ret_text, REASON_SHOWN, "refused by cloister: %s", reason);
	for (char *c = ret_text; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
}

static void
put_report(struct buf *b, const char *pushed, const char *reason)
{
	const char *refs[COURIER_GIT_REFS_MAX];
	char room[INSPECT_PUSHED_MAX], text[REASON_SHOWN];
	char line[INSPECT_PUSHED_MAX + REASON_SHOWN + 16];
	size_t n = courier_git_refs(pushed, room, refs);

	make_reason(reason, text);
	put_line(b, "unpack ok\n", 10);
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(line, sizeof(line), "ng %s %s\n",
		                   refs[i] + (refs[i][0] == ':' || refs[i][0] == '+'), text);

		put_line(b, line, (size_t)len);
	}
	buf_put(b, "0000", 4);
}

/* Whether all refs are known, and the whole request has come: git reads no response before that. */
static bool
can_report(const struct exchange *ex)
{
	size_t len = strlen(ex->inspect.pushed);

	return courier_git_has(ex->inspect.pushed, 'r') && strchr(ex->inspect.pushed, '/') != NULL &&
	       (len < 4 || strcmp(ex->inspect.pushed + len - 4, " ...") != 0) &&
	       (ex->t.came_all || (ex->request.length != HTTP_LENGTH_UNKNOWN &&
	                         ex->request.length <= COURIER_DRAIN_MAX));
}

bool
courier_git_refuse(struct exchange *ex, const char *reason)
{
	OWN(buf_free) struct buf report = BUF(REPORT_MAX), body = BUF(REPORT_MAX + 64);
	bool banded = courier_git_has(ex->inspect.pushed, 's');
	struct http_head head = {
		.status = 200, .n_fields = 3,
		.fields = { { { "content-type", 12 },
		              { "application/x-git-receive-pack-result", 37 } },
		            { { "cache-control", 13 }, { "no-store", 8 } },
		            { { "x-cloister-verdict", 18 }, { "deny", 4 } } },
	};

	if (!can_report(ex))
		return false;
	buf_put(&report, "\1", banded ? 1 : 0);
	put_report(&report, ex->inspect.pushed, reason);
	if (buf_failed(&report))
		return false;
	if (banded) {
		put_line(&body, (const char *)report.data, report.len);
		buf_put(&body, "0000", 4);
	} else {
		buf_put(&body, report.data, report.len);
	}
	ex->t.status = head.status;
	exchange_record(ex);
	exchange_answer(ex, &head, &body);
	return true;
}

/* ---- plain text ---- */

bool
courier_git_is_asking(const struct exchange *ex)
{
	static const char words[] = "/info/refs?service=git-";

	return memmem(ex->request.path.at, ex->request.path.len, words, sizeof(words) - 1) != NULL;
}

void
courier_git_put_text(struct buf *b, const char *reason, const char *rule, const char *hint)
{
	char text[REASON_SHOWN];

	make_reason(reason, text);
	buf_put_text(b, text);
	if (rule[0] != '\0') {
		buf_put(b, " (", 2);
		buf_put_text(b, rule);
		buf_put(b, ")", 1);
	}
	buf_put(b, "\n", 1);
	buf_put_text(b, hint);
	buf_put(b, "\n", 1);
}
