/* record_put.c - writes records: see record.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "audit/record.h"
#include "base/buf.h"
#include "base/codec.h"
#include "base/own.h"
#include "canon/hash.h"
#include "canon/members.h"

void
audit_time_ago(uint64_t ms, char ret_time[AUDIT_TIME_LEN + 1])
{
	/* Cached: formatting the time is among the slowest steps of a record. */
	static _Thread_local struct { time_t second; char text[64]; } last;
	unsigned milliseconds;
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= (time_t)(ms / 1000);
	if (now.tv_sec != last.second || last.text[0] == '\0') {
		gmtime_r(&now.tv_sec, &tm);
		snprintf(last.text, sizeof(last.text), "%04u-%02u-%02uT%02u:%02u:%02u.000Z",
		         (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_mon + 1,
		         (unsigned)tm.tm_mday, (unsigned)tm.tm_hour, (unsigned)tm.tm_min,
		         (unsigned)tm.tm_sec);
		last.second = now.tv_sec;
	}
	memcpy(ret_time, last.text, AUDIT_TIME_LEN);
	ret_time[AUDIT_TIME_LEN] = '\0';
	milliseconds = (unsigned)(now.tv_nsec / 1000000);
	ret_time[20] = (char)('0' + milliseconds / 100);
	ret_time[21] = (char)('0' + milliseconds / 10 % 10);
	ret_time[22] = (char)('0' + milliseconds % 10);
}

void
audit_time_now(char ret_time[AUDIT_TIME_LEN + 1])
{
	audit_time_ago(0, ret_time);
}

static void
put_hex(struct buf *b, const unsigned char hash[AUDIT_HASH])
{
	char text[AUDIT_HEX + 3];

	text[0] = '"';
	codec_hex(hash, AUDIT_HASH, text + 1);
	text[AUDIT_HEX + 1] = '"';
	buf_put(b, text, AUDIT_HEX + 2);
}

/* ---- events ---- */

void
audit_event_put(struct buf *b, const struct audit_member *members, size_t n)
{
	OWN(members_free) struct members all;

	members_init(&all, AUDIT_EVENT_MAX);
	for (size_t i = 0; i < n; i++) {
		const struct audit_member *m = &members[i];

		if (m->kind == AUDIT_NUMBER)
			members_u64(&all, m->name, m->number);
		else if (m->kind == AUDIT_TRUTH)
			members_bool(&all, m->name, m->number != 0);
		else if (m->text != NULL && m->kind == AUDIT_JSON)
			members_raw(&all, m->name, m->text, strlen(m->text));
		else if (m->text != NULL)
			members_text(&all, m->name, m->text, strlen(m->text), AUDIT_EVENT_MAX);
	}
	members_put_object(&all, b);
}

/* ---- records ---- */

void
audit_record_put(struct buf *b, struct audit_chain *c, const char *timeline, const char *time,
                 const char *event, size_t len)
{
	size_t from = b->len;

	if (strncmp(timeline, "cell/", 5) == 0) {
		buf_put_text(b, "{\"cell\":\"");
		buf_put_text(b, timeline + 5);
		buf_put_text(b, "\",\"event\":");
	} else {
		buf_put_text(b, "{\"event\":");
	}
	buf_put(b, event, len);
	if (strncmp(timeline, "cell/", 5) != 0) {
		buf_put_text(b, ",\"log\":\"");
		buf_put_text(b, timeline);
		buf_put_text(b, "\"");
	}
	buf_put_text(b, ",\"n\":");
	buf_put_decimal(b, c->tree.size + 1);
	buf_put_text(b, ",\"prev\":");
	put_hex(b, c->head);
	buf_put_text(b, ",\"time\":\"");
	buf_put_text(b, time);
	buf_put_text(b, "\"}");
	if (!buf_failed(b))
		audit_chain_add(c, (const char *)b->data + from, b->len - from);
	buf_put_text(b, "\n");
}

size_t
audit_checkpoint_text(char ret_text[AUDIT_CHECKPOINT_TEXT_MAX], const char *timeline,
                      uint64_t size, const unsigned char root[AUDIT_HASH], const char *time)
{
	char hex[AUDIT_HEX + 1];
	int n;

	codec_hex(root, AUDIT_HASH, hex);
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
	OWN(buf_free) struct buf event = BUF(512 + AUDIT_PEAKS_MAX * (AUDIT_HEX + 3));

	audit_tree_root(&c->tree, root);
	audit_key_sign(key, text, audit_checkpoint_text(text, timeline, c->tree.size, root, time),
	               signature);
	audit_signature_put(signature, base64);
	buf_put_text(&event, "{\"key\":");
	put_hex(&event, key->public);
	buf_put_text(&event, ",\"root\":");
	put_hex(&event, root);
	buf_put_text(&event, ",\"signature\":\"");
	buf_put(&event, base64, sizeof(base64));
	buf_put_text(&event, "\",\"size\":");
	buf_put_decimal(&event, c->tree.size);
	buf_put_text(&event, ",\"tree\":[");
	for (size_t i = 0; i < peaks; i++) {
		buf_put_text(&event, i == 0 ? "" : ",");
		put_hex(&event, c->tree.peak[i]);
	}
	buf_put_text(&event, "],\"type\":\"checkpoint\"}");
	if (buf_failed(&event))
		b->failed = true;
	else
		audit_record_put(b, c, timeline, time, (const char *)event.data, event.len);
}
