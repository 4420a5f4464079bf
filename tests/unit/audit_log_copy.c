/* audit_log_copy.c - tests of audit_log_sync(): what was synced is there again after the machine
 * stopped, whatever became of what was not. */
#include <unistd.h>

#include "audit/log_parts.h"
#include "audit_lab.h"

#define COPY NAME ".sync"

/* Sizes of the newest file: so much of it is on the disk by itself, and with the copy. */
static size_t on_disk, synced;

static void
lab_open_syncing(struct lab *lab, uint64_t size_max)
{
	lab_open(lab, size_max);
	lab->log.syncs = true;
}

static void
lab_sync(struct lab *lab)
{
	CHECK_OK(audit_log_sync(&lab->log, &lab->err));
	synced = lab->log.size;
	/* It was the timeline's turn. */
	if (lab->log.copy.at == 0)
		on_disk = lab->log.size;
}

static bool
lab_has(const struct lab *lab, const char *name)
{
	return faccessat(lab->dir, name, F_OK, 0) == 0;
}

static void
lab_write(struct lab *lab, const char *name, const char *text, size_t len)
{
	OWN(closep) int fd = openat(lab->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK_OK(write_all(fd, text, len, &lab->err));
}

/* As another supervisor finds it: nothing was closed. */
static void
lab_find(struct lab *lab, char **ret_text, size_t *ret_len)
{
	struct audit_log log;

	CHECK_OK(audit_log_open(&log, lab->dir, NAME, CELL, NULL, 1 << 20, &lab->err));
	audit_log_close(&log);
	CHECK(!lab_has(lab, COPY));
	*ret_text = lab_read(lab, NAME, ret_len);
}

/* ---- what a stopped machine leaves of the file that it had TEXT in ---- */

static size_t nothing(char *text, size_t base, size_t len) { (void)text; (void)len; return base; }
static size_t half(char *text, size_t base, size_t len) { (void)text; return base + (len - base) / 2; }
static size_t all(char *text, size_t base, size_t len) { (void)text; (void)base; return len; }

static size_t
zeros(char *text, size_t base, size_t len)
{
	memset(text + base, 0, len - base);
	return len;
}

static size_t
a_hole(char *text, size_t base, size_t len)
{
	memset(text + base + 100, 0, 300);
	return len;
}

static size_t
a_byte(char *text, size_t base, size_t len)
{
	text[base + (len - base) / 3] ^= 1;
	return len;
}

static size_t (*const losses[])(char *text, size_t base, size_t len) = {
	nothing, half, all, zeros, a_hole, a_byte,
};

static void
check_losses(struct lab *lab)
{
	size_t len, copy_len, found_len;
	OWN(freep) char *text = lab_read(lab, NAME, &len);
	OWN(freep) char *copy = lab_read(lab, COPY, &copy_len);

	CHECK_U64(copy_len, AUDIT_COPY_SIZE);
	CHECK(on_disk < synced && synced <= len);
	for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
		OWN(freep) char *lossy = malloc(len), *found = NULL;

		memcpy(lossy, text, len);
		lab_write(lab, NAME, lossy, losses[i](lossy, on_disk, len));
		lab_write(lab, COPY, copy, copy_len);
		lab_find(lab, &found, &found_len);
		if (found_len < synced || memcmp(found, text, found_len) != 0)
			test_fail(__FILE__, __LINE__, "loss %zu: %zu bytes of %zu", i, found_len, synced);
	}
}

TEST(audit_copy_restores_lost_records)
{
	struct lab lab;

	lab_open_syncing(&lab, 1 << 20);
	lab_add(&lab, 3);
	lab_sync(&lab);
	CHECK_U64(on_disk, synced);
	lab_add(&lab, 1);
	lab_sync(&lab);
	lab_add(&lab, 40);
	lab_sync(&lab);
	check_losses(&lab);
	audit_log_close(&lab.log);
}

TEST(audit_copy_from_the_first_line_on)
{
	struct lab lab;

	lab_open_syncing(&lab, 1 << 20);
	lab_sync(&lab);
	lab_add(&lab, 5);
	lab_sync(&lab);
	CHECK_U64(on_disk, 0);
	check_losses(&lab);
	audit_log_close(&lab.log);
}

/* What was only written is kept where it survived. */
TEST(audit_copy_does_not_shorten_a_timeline)
{
	size_t len, found_len;
	struct lab lab;

	lab_open_syncing(&lab, 1 << 20);
	lab_sync(&lab);
	lab_add(&lab, 5);
	lab_sync(&lab);
	lab_add(&lab, 5);
	{
		OWN(freep) char *text = lab_read(&lab, NAME, &len), *found = NULL;

		lab_find(&lab, &found, &found_len);
		CHECK(found_len == len && memcmp(found, text, len) == 0);
	}
	audit_log_close(&lab.log);
}

TEST(audit_copy_is_used_again_when_full)
{
	unsigned times = 0;
	struct lab lab;

	lab_open_syncing(&lab, 16 << 20);
	lab_sync(&lab);
	while (times < 3) {
		lab_add(&lab, 97);
		lab_sync(&lab);
		times += on_disk == synced;
	}
	lab_add(&lab, 10);
	lab_sync(&lab);
	lab_add(&lab, 3);
	check_losses(&lab);
	audit_log_close(&lab.log);
}

TEST(audit_copy_of_a_file_that_was_turned_over)
{
	size_t older_len, len;
	struct lab lab;

	lab_open_syncing(&lab, 20000);
	lab_sync(&lab);
	while (lab.log.last < 3) {
		lab_add(&lab, 1);
		lab_sync(&lab);
	}
	lab_add(&lab, 5);
	lab_sync(&lab);
	on_disk = 0;
	check_losses(&lab);
	audit_log_close(&lab.log);

	/* As long as nothing of the new file was synced, the copy is of the old one. */
	lab_open_syncing(&lab, 20000);
	lab_sync(&lab);
	while (lab.log.last < 4)
		lab_add(&lab, 1);
	{
		OWN(freep) char *older = lab_read(&lab, NAME ".4", &older_len), *text = NULL, *still = NULL;

		lab_find(&lab, &text, &len);
		still = lab_read(&lab, NAME ".4", &len);
		CHECK(len == older_len && memcmp(older, still, len) == 0);
	}
	audit_log_close(&lab.log);
}

TEST(audit_copy_goes_with_the_timeline)
{
	struct lab lab;

	lab_open_syncing(&lab, 1 << 20);
	lab_add(&lab, 3);
	lab_sync(&lab);
	CHECK(lab_has(&lab, COPY));
	lab_add(&lab, 3);
	audit_log_close(&lab.log);
	CHECK(!lab_has(&lab, COPY) && lab_has(&lab, NAME));
}

/* What is no copy of this timeline changes nothing. */
TEST(audit_copy_that_is_none)
{
	static const char *const others[] = {
		"", "\n", "0\n", "0", "99999999\n{}\n", "-1\n{}\n", "0\n{}\n{}\n", "x\n", "12345678901234567890123456789\n",
	};
	size_t len, found_len;
	struct lab lab;

	lab_open_syncing(&lab, 1 << 20);
	lab_add(&lab, 5);
	{
		OWN(freep) char *text = lab_read(&lab, NAME, &len);

		for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			OWN(freep) char *found = NULL;

			lab_write(&lab, COPY, others[i], strlen(others[i]));
			lab_find(&lab, &found, &found_len);
			CHECK(found_len == len && memcmp(found, text, len) == 0);
		}
	}
	audit_log_close(&lab.log);
}
