/* audit_log.c - tests of audit/record, audit/log and audit/operator. */
#include "audit/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "audit/operator.h"
#include "audit/reader.h"
#include "audit_lab.h"
#include "base/io.h"

static void
lab_again(struct lab *lab)
{
	uint64_t max = lab->log.size_max;

	audit_log_close(&lab->log);
	CHECK_OK(audit_log_open(&lab->log, lab->dir, NAME, CELL, &lab->key, max, &lab->err));
}

TEST(audit_record_round_trip)
{
	static const char event[] = "{\"a\":[1,2],\"type\":\"x\"}";
	static const char want[] = "{\"cell\":\"ab12cd34\",\"event\":{\"a\":[1,2],\"type\":\"x\"},\"n\":1,"
		"\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\","
		"\"time\":\"2026-11-15T16:00:00.000Z\"}\n";
	OWN(buf_free) struct buf b;
	struct audit_chain chain = {0};
	struct audit_record record;
	struct err err;

	buf_init(&b, 65536);
	audit_record_put(&b, &chain, CELL, TIME, event, strlen(event));
	CHECK(b.len == strlen(want) && memcmp(b.data, want, b.len) == 0);
	CHECK_OK(audit_record_read(want, strlen(want) - 1, &record, &err));
	CHECK_STR(record.timeline, CELL);
	CHECK(record.event.len == strlen(event) && memcmp(record.event.at, event, strlen(event)) == 0);
	CHECK(record.n == 1 && !record.is_checkpoint);
	/* Nothing of it can be another and still be a record. */
	for (size_t i = 0; i + 1 < b.len; i++) {
		char line[512];

		memcpy(line, want, i);
		memcpy(line + i, want + i + 1, b.len - i - 2);
		(void)audit_record_read(line, b.len - 2, &record, &err);
		CHECK_ERR(audit_record_read(want, i, &record, &err), EBADMSG);
	}
}

TEST(audit_checkpoint_round_trip)
{
	OWN(buf_free) struct buf b;
	struct audit_chain chain = {0};
	unsigned char prev[AUDIT_HASH];
	struct audit_checkpoint checkpoint;
	struct audit_record record;
	struct audit_key key;
	struct err err;

	buf_init(&b, 65536);
	CHECK_OK(audit_key_make(&key, &err));
	for (int i = 0; i < 7; i++)
		audit_record_put(&b, &chain, AUDIT_OPERATOR, TIME, "{}", 2);
	buf_reset(&b);
	audit_checkpoint_put(&b, &chain, AUDIT_OPERATOR, TIME, &key);
	CHECK(!buf_failed(&b));
	CHECK_OK(audit_record_read((char *)b.data, b.len - 1, &record, &err));
	CHECK(record.is_checkpoint && record.n == 8);
	CHECK_OK(audit_checkpoint_read(&record, &checkpoint, &err));
	CHECK_U64(checkpoint.tree.size, 7);
	CHECK(audit_checkpoint_is_signed(&record, &checkpoint));
	memcpy(prev, record.prev, sizeof(prev));
	/* Each byte of it but those that hang on the record before matters to the signature. */
	for (size_t i = 0; i + 1 < b.len; i++) {
		bool is_sound;

		b.data[i] ^= 1;
		is_sound = audit_record_read((char *)b.data, b.len - 1, &record, &err) == 0 &&
		           record.is_checkpoint && record.n == 8 &&
		           audit_checkpoint_read(&record, &checkpoint, &err) == 0 &&
		           audit_checkpoint_is_signed(&record, &checkpoint);
		b.data[i] ^= 1;
		if (is_sound && memcmp(record.prev, prev, sizeof(prev)) == 0)
			test_fail(__FILE__, __LINE__, "byte %zu can be changed", i);
	}
}

TEST(audit_event_of_members)
{
	OWN(buf_free) struct buf b;
	struct audit_member members[] = {
		{ .name = "z", .text = "a\"\\\n\x01\xff\xc3\xa9" },
		{ .name = "n", .kind = AUDIT_NUMBER, .number = 42 },
		{ .name = "t", .kind = AUDIT_TRUTH, .number = 1 },
		{ .name = "gone", .text = NULL },
		{ .name = "j", .kind = AUDIT_JSON, .text = "[1]" },
	};

	buf_init(&b, 4096);
	audit_event_put(&b, members, ARRAY_LEN(members));
	buf_put(&b, "", 1);
	CHECK_STR((char *)b.data, "{\"j\":[1],\"n\":42,\"t\":true,"
	          "\"z\":\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\xc3\xa9\"}");
}

TEST(audit_log_goes_on)
{
	struct audit_chain chain;
	struct lab lab;

	lab_open(&lab, 1 << 20);
	for (int i = 0; i < 40; i++) {
		lab_add(&lab, i % 7);
		if (i % 5 == 4) {
			CHECK_OK(audit_log_checkpoint(&lab.log, TIME));
			CHECK_OK(audit_log_write(&lab.log, true, &lab.err));
		}
		chain = lab.log.chain;
		lab_again(&lab);
		CHECK(lab.log.chain.tree.size == chain.tree.size);
		CHECK(memcmp(lab.log.chain.head, chain.head, AUDIT_HASH) == 0);
		CHECK(memcmp(lab.log.chain.tree.peak, chain.tree.peak,
		             audit_tree_peaks(chain.tree.size) * AUDIT_HASH) == 0);
	}
	CHECK(lab.log.chain.tree.size > 100);
	audit_log_close(&lab.log);
}

TEST(audit_log_cuts_a_torn_line)
{
	struct audit_chain chain;
	struct lab lab;
	struct stat st;

	lab_open(&lab, 1 << 20);
	lab_add(&lab, 3);
	chain = lab.log.chain;
	CHECK(fstatat(lab.dir, NAME, &st, 0) == 0);
	CHECK_OK(write_all(lab.log.fd, "{\"cell\":\"ab", 11, &lab.err));
	lab_again(&lab);
	CHECK_U64(lab.log.torn, 11);
	CHECK_U64(lab.log.size, (uint64_t)st.st_size);
	CHECK(memcmp(&lab.log.chain.head, &chain.head, AUDIT_HASH) == 0);
	lab_add(&lab, 1);
	lab_again(&lab);
	CHECK_U64(lab.log.torn, 0);
	CHECK_U64(lab.log.chain.tree.size, 4);
	/* Nothing but half a line is an empty timeline. */
	CHECK(ftruncate(lab.log.fd, 20) == 0);
	lab.log.size = lab.log.reserved = 20;
	lab_again(&lab);
	CHECK_U64(lab.log.torn, 20);
	CHECK_U64(lab.log.chain.tree.size, 0);
	audit_log_close(&lab.log);
}

TEST(audit_log_refuses_a_damaged_end)
{
	struct audit_log again;
	struct lab lab;

	lab_open(&lab, 1 << 20);
	lab_add(&lab, 3);
	audit_log_close(&lab.log);
	OWN(freep) char *text = lab_read(&lab, NAME, NULL);
	*strstr(text, "test") = 'T';
	CHECK_OK(create_file_at(lab.dir, NAME, 0600, text, &lab.err));
	CHECK_ERR(audit_log_open(&again, lab.dir, NAME, CELL, &lab.key, 1 << 20, &lab.err), EBADMSG);
	/* Nor is another cell's taken for this one's. */
	CHECK(unlinkat(lab.dir, NAME, 0) == 0);
	CHECK_OK(audit_log_open(&again, lab.dir, NAME, "cell/other", &lab.key, 1 << 20, &lab.err));
	CHECK_OK(audit_log_put(&again, TIME, "{}", 2));
	CHECK_OK(audit_log_write(&again, false, &lab.err));
	audit_log_close(&again);
	CHECK_ERR(audit_log_open(&again, lab.dir, NAME, CELL, &lab.key, 1 << 20, &lab.err), EBADMSG);
}

TEST(audit_log_files_turn_over)
{
	struct audit_record record;
	struct lab lab;
	uint32_t first, last;

	lab_open(&lab, 1000);
	lab_add(&lab, 60);
	CHECK_OK(audit_log_files(lab.dir, NAME, 1, &first, &last, &lab.err));
	CHECK(first == 1 && last >= 5 && last == lab.log.last);
	/* The next begins with a checkpoint. */
	OWN(freep) char *text = lab_read(&lab, NAME ".2", NULL);
	CHECK_OK(audit_record_read(text, strcspn(text, "\n"), &record, &lab.err));
	CHECK(record.is_checkpoint);
	/* A crash between the files. */
	while (lab.log.size == 0)
		lab_add(&lab, 1);
	audit_log_close(&lab.log);
	CHECK(renameat(lab.dir, NAME, lab.dir, NAME ".99") == 0);
	uint64_t n = lab.log.chain.tree.size;
	CHECK_OK(audit_log_open(&lab.log, lab.dir, NAME, CELL, &lab.key, 1000, &lab.err));
	CHECK_U64(lab.log.chain.tree.size, n);
	audit_log_close(&lab.log);
}

TEST(audit_log_drops_the_oldest)
{
	struct lab lab;
	uint32_t first, last;

	/* What tells of it must take less than a file. */
	lab_open(&lab, 8000);
	CHECK(audit_log_drop(&lab.log, TIME, &lab.err) == 0);
	lab_add(&lab, 150);
	last = lab.log.last;
	CHECK(audit_log_drop(&lab.log, TIME, &lab.err) == 1);
	CHECK_OK(audit_log_files(lab.dir, NAME, 1, &first, &last, &lab.err));
	CHECK(first == 2 && first == lab.log.first);
	while (audit_log_drop(&lab.log, TIME, &lab.err) == 1)
		;
	CHECK(lab.log.first == 0);
	last = lab.log.last;
	lab_add(&lab, 50);
	CHECK(lab.log.first == last + 1);
	lab_again(&lab);
	audit_log_close(&lab.log);
}

TEST(audit_log_takes_only_canonical_text)
{
	OWN(freep) char *large = malloc(AUDIT_EVENT_MAX + 16);
	struct lab lab;
	int n = 0;

	lab_open(&lab, 1 << 20);
	CHECK_ERR(audit_log_put(&lab.log, TIME, "{\"a\": 1}", 8), EINVAL);
	CHECK_ERR(audit_log_put(&lab.log, TIME, "{}\n", 3), EINVAL);
	memset(large, 'x', AUDIT_EVENT_MAX + 16);
	memcpy(large, "{\"a\":\"", 6);
	memcpy(large + AUDIT_EVENT_MAX - 2, "\"}", 2);
	CHECK_ERR(audit_log_put(&lab.log, TIME, large, AUDIT_EVENT_MAX + 1), EMSGSIZE);
	while (audit_log_put(&lab.log, TIME, large, AUDIT_EVENT_MAX) == 0)
		n++;
	CHECK_ERR(audit_log_put(&lab.log, TIME, "{}", 2), ENOBUFS);
	CHECK(n > 3);
	CHECK_OK(audit_log_checkpoint(&lab.log, TIME));
	CHECK_OK(audit_log_write(&lab.log, false, &lab.err));
	lab_again(&lab);
	CHECK_U64(lab.log.chain.tree.size, (uint64_t)n + 1);
	audit_log_close(&lab.log);
}

/* At no time is there none for the last word: others may fill the disk right then. */
TEST(audit_log_keeps_room_when_turned_over)
{
	struct lab lab;

	lab_open(&lab, 1000);
	lab.log.keeps_room = true;
	for (int i = 0; i < 100 && lab.log.last < 3; i++) {
		lab_add(&lab, 1);
		CHECK(lab.log.reserved >= lab.log.size + AUDIT_RESERVE);
	}
	CHECK_U64(lab.log.last, 3);
	audit_log_close(&lab.log);
}

/* A write that fails leaves all as it was. */
TEST(audit_log_write_fails)
{
	struct audit_chain chain;
	struct lab lab;
	int fd;

	lab_open(&lab, 1 << 20);
	lab_add(&lab, 3);
	chain = lab.log.chain;
	fd = lab.log.fd;
	lab.log.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	CHECK_OK(audit_log_put(&lab.log, TIME, "{}", 2));
	CHECK_ERR(audit_log_write(&lab.log, false, &lab.err), ENOSPC);
	CHECK(memcmp(&lab.log.chain, &chain, sizeof(chain)) == 0);
	close(lab.log.fd);
	lab.log.fd = fd;
	lab_add(&lab, 1);
	lab_again(&lab);
	CHECK_U64(lab.log.chain.tree.size, 4);
	audit_log_close(&lab.log);
}

/* ---- the operator's ---- */

TEST(operator_many_at_once)
{
	struct audit_chain chain;
	struct operator op;
	struct audit_log log;
	struct err err = {0};
	int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), status;

	for (int child = 0; child < 4; child++) {
		if (fork() == 0) {
			struct audit_member member = { .name = "who", .kind = AUDIT_NUMBER };

			member.number = (uint64_t)child;
			CHECK_OK(operator_open_at(dup(dir), &op, &err));
			for (int i = 0; i < 50; i++)
				CHECK_OK(operator_append_members(&op, i % 10 == 0 ? OPERATOR_NOW :
				                                 OPERATOR_LATER, "test", &member, 1, &err));
			operator_close(&op);
			_exit(0);
		}
	}
	for (int child = 0; child < 4; child++)
		CHECK(wait(&status) > 0 && status == 0);
	CHECK_OK(operator_open_at(dir, &op, &err));
	CHECK_OK(operator_checkpoint(&op, &err));
	CHECK_OK(audit_log_open(&log, op.dir, OPERATOR_LOG, AUDIT_OPERATOR, &op.key, 1 << 20, &err));
	/* The beginning, 200, and a checkpoint behind that and each of the 20; perhaps one from who
	 * found no key, and the last. */
	CHECK(log.chain.tree.size >= 222 && log.chain.tree.size <= 226 && log.unsigned_n == 0);
	chain = log.chain;
	audit_log_close(&log);
	/* There is nothing to sign. */
	CHECK_OK(operator_checkpoint(&op, &err));
	CHECK_OK(audit_log_open(&log, op.dir, OPERATOR_LOG, AUDIT_OPERATOR, &op.key, 1 << 20, &err));
	CHECK(memcmp(log.chain.head, chain.head, AUDIT_HASH) == 0);
	audit_log_close(&log);
	operator_close(&op);
}

TEST(operator_cells)
{
	struct audit_chain chain = {0};
	struct operator op;
	struct err err = {0};
	OWN(freep) char *text = NULL;
	struct stat before, after;

	CHECK_OK(operator_open_at(open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), &op, &err));
	CHECK(fstatat(op.dir, OPERATOR_HEAD, &before, 0) == 0);
	CHECK_OK(operator_cell_started(&op, "ab12cd34", op.key.public, "sha256:00", &err));
	CHECK_OK(operator_cell_ended(&op, "ab12cd34", &chain, 7, &err));
	CHECK_OK(operator_cell_lost(&op, "ab12cd35", NULL, &err));
	CHECK_OK(operator_cell_pruned(&op, "ab12cd34", "retention", &err));
	CHECK_OK(read_file_at(op.dir, OPERATOR_LOG, 1 << 20, &text, NULL, &err));
	CHECK(strstr(text, "\"grant\":\"sha256:00\",\"key\":\"") != NULL);
	CHECK(strstr(text, "\"size\":0,\"status\":7,\"type\":\"cell.ended\"}") != NULL);
	CHECK(strstr(text, "{\"cell\":\"ab12cd35\",\"type\":\"cell.lost\"}") != NULL);
	/* Not signed yet: only the beginning is. */
	CHECK(strstr(strstr(text, "checkpoint") + 1, "checkpoint") == NULL);
	CHECK(fstatat(op.dir, OPERATOR_HEAD, &after, 0) == 0 && after.st_size == before.st_size);
	free(TAKE(text));
	CHECK_OK(operator_checkpoint(&op, &err));
	CHECK_OK(read_file_at(op.dir, OPERATOR_HEAD, 4096, &text, NULL, &err));
	CHECK(strstr(text, "\"log\":\"operator\",\"n\":7}\n") != NULL);
	operator_close(&op);
}

TEST(operator_repairs_and_reports_it)
{
	struct operator op;
	struct err err = {0};
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;

	CHECK_OK(operator_open_at(open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), &op, &err));
	CHECK_OK(operator_append(&op, OPERATOR_LATER, "{}", 2, &err));
	fd = openat(op.dir, OPERATOR_LOG, O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK_OK(write_all(fd, "{\"event\":{", 10, &err));
	CHECK_OK(operator_append(&op, OPERATOR_LATER, "{\"b\":2}", 7, &err));
	CHECK_OK(read_file_at(op.dir, OPERATOR_LOG, 1 << 20, &text, NULL, &err));
	CHECK(strstr(text, "{\"bytes\":10,\"type\":\"log.repaired\"},\"log\":\"operator\",\"n\":4,") != NULL);
	CHECK(strstr(text, "{\"b\":2},\"log\":\"operator\",\"n\":5,") != NULL);
	CHECK_ERR(operator_append(&op, OPERATOR_LATER, "{\"b\": 2}", 8, &err), EINVAL);
	operator_close(&op);
}

TEST(operator_drops_the_oldest)
{
	struct operator op;
	struct err err = {0};
	uint32_t first, last;
	char event[1024];

	CHECK_OK(operator_open_at(open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), &op, &err));
	op.file_max = 4096;
	op.files_max = 3;
	memset(event, 'x', sizeof(event));
	memcpy(event, "{\"a\":\"", 6);
	memcpy(event + sizeof(event) - 2, "\"}", 2);
	for (int i = 0; i < 60; i++)
		CHECK_OK(operator_append(&op, i % 3 == 0 ? OPERATOR_NOW : OPERATOR_LATER, event,
		                         sizeof(event), &err));
	CHECK_OK(audit_log_files(op.dir, OPERATOR_LOG, 1, &first, &last, &err));
	CHECK(last > 10 && last - first + 1 <= 3);
	CHECK(faccessat(op.dir, OPERATOR_LOG ".1", F_OK, 0) < 0);
	/* The chain goes on, and what went was said to go. */
	op.file_max = 1 << 20;
	CHECK_OK(operator_checkpoint(&op, &err));
	{
		struct audit_log log;

		CHECK_OK(audit_log_open(&log, op.dir, OPERATOR_LOG, AUDIT_OPERATOR, &op.key, 1 << 20,
		                        &err));
		CHECK(log.chain.tree.size > 60);
		audit_log_close(&log);
	}
	operator_close(&op);
}

TEST(audit_reader_leaves_standard_input_open)
{
	OWN(closep) int dir = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(audit_reader_close) struct audit_reader r = {0};
	struct err err = {0};
	struct stat was, is;
	const char *line;
	size_t len;

	CHECK(fstat(STDIN_FILENO, &was) == 0);
	CHECK_OK(create_file_at(dir, "t.jsonl", 0600, "new\n", &err));
	CHECK_OK(create_file_at(dir, "t.jsonl.1", 0600, "old\n", &err));
	CHECK_OK(audit_reader_open(&r, dir, "t.jsonl", &err));
	CHECK(audit_reader_next(&r, &line, &len, &err) == 1 && memcmp(line, "old", 3) == 0);
	CHECK(audit_reader_next(&r, &line, &len, &err) == 1 && memcmp(line, "new", 3) == 0);
	CHECK(audit_reader_next(&r, &line, &len, &err) == 0);
	audit_reader_close(&r);
	CHECK(fstat(STDIN_FILENO, &is) == 0 && is.st_ino == was.st_ino && is.st_dev == was.st_dev);
}
