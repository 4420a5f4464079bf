/* fuzz_notify.c - calls of a hostile agent, as the reader of notifications looks at them.
 *
 * The agent is this process.  The first byte chooses the call, six more its arguments, and the rest is memory that
 * ends before a page which cannot be read.  An argument from 128 on points there.  So does a word of the memory
 * whose upper half is POINTER.  Whatever they are, nothing but the given room is filled. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "fuzz.h"
#include "witness/notify/notify.h"

#define MEMORY 16384
#define POINTER 0x70747220u
#define ARGS 6

static const long calls[] = {
	SYS_openat, SYS_openat2, SYS_unlinkat, SYS_renameat2, SYS_linkat, SYS_symlinkat, SYS_mkdirat, SYS_fchmod,
	SYS_fchmodat, SYS_fchownat, SYS_utimensat, SYS_execve, SYS_execveat, SYS_connect, SYS_bind, SYS_listen, SYS_kill,
	SYS_memfd_create, SYS_mount, SYS_truncate, SYS_process_vm_readv,
};

static char *
map_memory(void)
{
	static char *memory;

	if (memory == NULL) {
		memory = mmap(NULL, MEMORY + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert(memory != MAP_FAILED && mprotect(memory + MEMORY, 4096, PROT_NONE) == 0);
	}
	return memory;
}

static void
set_pointers(char *at, size_t len)
{
	for (size_t i = 0; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, at + i, sizeof(word));
		if (word >> 32 != POINTER)
			continue;
		word = (uint64_t)(uintptr_t)at + (word & 0xffff) % (len + 1);
		memcpy(at + i, &word, sizeof(word));
	}
}

static void
check(const struct notify *n, const struct act_text *text, size_t max)
{
	const char *first = (const char *)&n->seen, *last = first + sizeof(n->seen);

	assert(text->len <= max);
	assert(text->at == NULL || (text->at >= first && text->at + text->len <= last));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct notify n;
	struct notify_proc p = { .of = &n, .host = getpid(), .pid = 2, .parent = 1, .died.fd = -1 };
	struct notify_call call = { .id = 1, .tid = getpid() };
	size_t len;
	char *at;

	if (size < 2 + ARGS || size - 2 - ARGS > MEMORY)
		return 0;
	len = size - 2 - ARGS;
	at = map_memory() + MEMORY - len / 8 * 8;
	memcpy(at, data + 2 + ARGS, len / 8 * 8);
	set_pointers(at, len / 8 * 8);
	n.root = -1;
	n.changes_root = true;
	call.data.nr = (int)calls[data[0] % ARRAY_LEN(calls)];
	call.error = data[1] % 2;
	for (size_t i = 0; i < ARGS; i++) {
		uint8_t arg = data[2 + i];

		call.data.args[i] = arg >= 128 ? (uint64_t)(uintptr_t)at + (arg - 128u) * 8 : (uint64_t)(int64_t)(arg - 100);
	}
	if (!notify_look(&n, &call, &p))
		return 0;
	check(&n, &n.seen.act.path, ACT_PATH_MAX);
	check(&n, &n.seen.act.to, ACT_PATH_MAX);
	check(&n, &n.seen.act.cwd, ACT_PATH_MAX);
	check(&n, &n.seen.act.text, ACT_PATH_MAX);
	check(&n, &n.seen.act.argv, ACT_ARGV_MAX);
	assert(n.seen.act.argv.len == 0 || n.seen.argv[n.seen.act.argv.len - 1] == '\0');
	return 0;
}
