/* fuzz_audit_log.c - bytes that may be what a stopped machine left of a timeline, and behind the
 * first RS of its copy: it is opened or it is not, and if so it ends there the next time too. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/log.h"
#include "audit/log_parts.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "fuzz.h"

#define SEPARATOR 0x1e

static int folder = -1;
static char name[AUDIT_NAME_MAX], copy[AUDIT_NAME_MAX + 12];

static void
open_folder(void)
{
	folder = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(folder >= 0);
	snprintf(name, sizeof(name), "fuzz-log-%d", (int)getpid());
	audit_copy_name(copy, name);
}

static void
put_file(const char *as, const uint8_t *data, size_t size)
{
	OWN(closep) int fd = openat(folder, as, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert(fd >= 0 && write_all(fd, data, size, NULL) == 0);
}

static int
open_log(struct audit_log *ret_log)
{
	struct err err = {0};
	int r = audit_log_open(ret_log, folder, name, "cell/ab12cd34", NULL, 1 << 20, &err);

	assert((r < 0) == (err.text[0] != '\0'));
	if (r == 0)
		audit_log_close(ret_log);
	return r;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, SEPARATOR, size);
	struct audit_log log, again;

	if (folder < 0)
		open_folder();
	put_file(name, data, end != NULL ? (size_t)(end - data) : size);
	if (end != NULL)
		put_file(copy, end + 1, (size_t)(data + size - end) - 1);
	if (open_log(&log) == 0) {
		assert(faccessat(folder, copy, F_OK, 0) < 0);
		assert(open_log(&again) == 0 && again.torn == 0 && again.size == log.size &&
		       memcmp(again.chain.head, log.chain.head, AUDIT_HASH) == 0);
	}
	(void)unlinkat(folder, copy, 0);
	assert(unlinkat(folder, name, 0) == 0);
	return 0;
}
