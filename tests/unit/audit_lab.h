/* audit_lab.h - a timeline in a folder of its own, for tests of audit/log. */
#ifndef CLOISTER_AUDIT_LAB_H
#define CLOISTER_AUDIT_LAB_H
#include <fcntl.h>

#include "audit/log.h"
#include "base/err.h"
#include "base/io.h"
#include "test.h"

#define TIME "2026-11-15T16:00:00.000Z"
#define NAME "events.jsonl"
#define CELL "cell/ab12cd34"
#define TEXT_MAX (8 << 20)

struct lab {
	int dir;
	struct audit_key key;
	struct audit_log log;
	struct err err;
};

static void
lab_open(struct lab *lab, uint64_t size_max)
{
	lab->dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lab->err = (struct err){0};
	CHECK_OK(audit_key_make(&lab->key, &lab->err));
	CHECK_OK(audit_log_open(&lab->log, lab->dir, NAME, CELL, &lab->key, size_max, &lab->err));
}

static void
lab_add(struct lab *lab, int n)
{
	static const char event[] = "{\"note\":\"x\",\"type\":\"test\"}";

	for (int i = 0; i < n; i++) {
		CHECK_OK(audit_log_put(&lab->log, TIME, event, strlen(event)));
		CHECK_OK(audit_log_write(&lab->log, false, &lab->err));
	}
}

/* The caller's; RET_LEN may be NULL. */
static char *
lab_read(struct lab *lab, const char *name, size_t *ret_len)
{
	char *text;

	CHECK_OK(read_file_at(lab->dir, name, TEXT_MAX, &text, ret_len, &lab->err));
	return text;
}
#endif
