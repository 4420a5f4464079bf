/* record_put.c - writes records: see record.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/record.h"
#include "base/buf.h"
#include "base/own.h"
#include "base/utf8.h"
#include "canon/hash.h"

void
audit_time_ago(uint64_t ms, char ret_time[AUDIT_TIME_LEN + 1])
{
	struct timespec now;
	struct tm tm;
	char text[64];

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= (time_t)(ms / 1000);
	gmtime_r(&now.tv_sec, &tm);
	snprintf(text, sizeof(text), "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
	         (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_mon + 1,
	         (unsigned)tm.tm_mday, (unsigned)tm.tm_hour, (unsigned)tm.tm_min,
	         (unsigned)tm.tm_sec, (unsigned)(now.tv_nsec / 1000000));
	memcpy(ret_time, text, AUDIT_TIME_LEN);
	ret_time[AUDIT_TIME_LEN] = '\0';
}

void
audit_time_now(char ret_time[AUDIT_TIME_LEN + 1])
{
	audit_time_ago(0, ret_time);
}

static void
put(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

static void
put_number(struct buf *b, uint64_t n)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	put(b, text);
}

static void
put_hex(struct buf *b, const unsigned char hash[AUDIT_HASH])
{
	char text[AUDIT_HEX + 3];

	text[0] = '"';
	hex_put(hash, AUDIT_HASH, text + 1);
	text[AUDIT_HEX + 1] = '"';
	buf_put(b, text, AUDIT_HEX + 2);
}

/* ---- events ---- */

static void
put_escaped(struct buf *b, unsigned char c)
{
	static const char codes[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
	const char *code = strchr(codes, c);
	char text[8];

	if (code != NULL)
		snprintf(text, sizeof(text), "\\%c", names[code - codes]);
	else
		snprintf(text, sizeof(text), "\\u%04x", c);
	put(b, text);
}

void
audit_text_put(struct buf *b, const char *text, size_t len)
{
	uint32_t code;
	size_t n;

	put(b, "\"");
	for (size_t i = 0; i < len; i += n) {
		n = utf8_next(text + i, len - i, &code);
		if (n == 0 || code == 0) {
			put(b, "\xef\xbf\xbd");
			n = 1;
		} else if (code < 0x20 || code == '"' || code == '\\') {
			put_escaped(b, (unsigned char)code);
		} else {
			buf_put(b, text + i, n);
		}
	}
	put(b, "\"");
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct audit_member *)a)->name, ((const struct audit_member *)b)->name);
}

static void
put_member(struct buf *b, const struct audit_member *m)
{
	audit_text_put(b, m->name, strlen(m->name));
	put(b, ":");
	if (m->kind == AUDIT_TEXT)
		audit_text_put(b, m->text, strlen(m->text));
	else if (m->kind == AUDIT_NUMBER)
		put_number(b, m->number);
	else
		put(b, m->kind == AUDIT_JSON ? m->text : m->number != 0 ? "true" : "false");
}

void
audit_event_put(struct buf *b, struct audit_member *members, size_t n)
{
	const char *before = "{";

	qsort(members, n, sizeof(*members), by_name);
	for (size_t i = 0; i < n; i++) {
		if (members[i].text == NULL &&
		    (members[i].kind == AUDIT_TEXT || members[i].kind == AUDIT_JSON))
			continue;
		put(b, before);
		put_member(b, &members[i]);
		before = ",";
	}
	put(b, *before == '{' ? "{}" : "}");
}

/* ---- records ---- */

void
audit_record_put(struct buf *b, struct audit_chain *c, const char *timeline, const char *time,
                 const char *event, size_t len)
{
	size_t from = b->len;

	if (strncmp(timeline, "cell/", 5) == 0) {
		put(b, "{\"cell\":\"");
		put(b, timeline + 5);
		put(b, "\",\"event\":");
	} else {
		put(b, "{\"event\":");
	}
	buf_put(b, event, len);
	if (strncmp(timeline, "cell/", 5) != 0) {
		put(b, ",\"log\":\"");
		put(b, timeline);
		put(b, "\"");
	}
	put(b, ",\"n\":");
	put_number(b, c->tree.size + 1);
	put(b, ",\"prev\":");
	put_hex(b, c->head);
	put(b, ",\"time\":\"");
	put(b, time);
	put(b, "\"}");
	if (!buf_failed(b))
		audit_chain_add(c, (const char *)b->data + from, b->len - from);
	put(b, "\n");
}

size_t
audit_checkpoint_text(char ret_text[AUDIT_CHECKPOINT_TEXT_MAX], const char *timeline,
                      uint64_t size, const unsigned char root[AUDIT_HASH], const char *time)
{
	char hex[AUDIT_HEX + 1];
	int n;

	hex_put(root, AUDIT_HASH, hex);
	n = snprintf(ret_text, AUDIT_CHECKPOINT_TEXT_MAX,
	             "cloister checkpoint v1\n%s\n%" PRIu64 "\n%s\n%.*s\n", timeline, size, hex,
	             AUDIT_TIME_LEN, time);
	return (size_t)n;
}

void
audit_checkpoint_put(struct buf *b, struct audit_chain *c, const char *timeline,
                     const char *time, const struct audit_key *key)
{
	unsigned char root[AUDIT_HASH], signature[AUDIT_SIGNATURE];
	char text[AUDIT_CHECKPOINT_TEXT_MAX], base64[AUDIT_SIGNATURE_TEXT];
	size_t peaks = audit_tree_peaks(c->tree.size);
	OWN(buf_free) struct buf event;

	buf_init(&event, 512 + AUDIT_PEAKS_MAX * (AUDIT_HEX + 3));
	audit_tree_root(&c->tree, root);
	audit_key_sign(key, text, audit_checkpoint_text(text, timeline, c->tree.size, root, time),
	               signature);
	audit_signature_put(signature, base64);
	put(&event, "{\"key\":");
	put_hex(&event, key->public);
	put(&event, ",\"root\":");
	put_hex(&event, root);
	put(&event, ",\"signature\":\"");
	buf_put(&event, base64, sizeof(base64));
	put(&event, "\",\"size\":");
	put_number(&event, c->tree.size);
	put(&event, ",\"tree\":[");
	for (size_t i = 0; i < peaks; i++) {
		put(&event, i == 0 ? "" : ",");
		put_hex(&event, c->tree.peak[i]);
	}
	put(&event, "],\"type\":\"checkpoint\"}");
	if (buf_failed(&event))
		b->failed = true;
	else
		audit_record_put(b, c, timeline, time, (const char *)event.data, event.len);
}
