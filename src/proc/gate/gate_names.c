/* gate_names.c - see gate_names.h. */
#include "proc/gate/gate_names.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "http/http_head.h"

/* One entry of the memory file; entry I is for number I.  Entry 0 has no name; its ASKED_MS is the
 * number of entries in use.  The rest of the file was never touched and takes no memory. */
struct names_entry {
	uint64_t asked_ms;
	char name[HTTP_HOST_MAX + 1];
};

#define NAMES_SIZE (CELL_NET_NAMES_MAX * sizeof(struct names_entry))
#define NAMES_SLOTS (2 * CELL_NET_NAMES_MAX)    /* a power of two */

struct gate_names {
	struct names_entry *entries;            /* the file */
	uint32_t used;                          /* the first number that was never given */
	uint16_t slots[NAMES_SLOTS];            /* a hash table of numbers; 0: free */
};

/* The file may hold anything: a name is valid only if it is terminated and canonical. */
static bool
names_is_good(const struct names_entry *entry)
{
	char host[HTTP_HOST_MAX + 1], address[16];
	struct http_text text = { entry->name, strnlen(entry->name, sizeof(entry->name)) };
	uint16_t port;

	return text.len > 0 && text.len < sizeof(entry->name) &&
	       http_authority_parse(text, host, &port, NULL) == 0 && port == 0 &&
	       strcmp(host, entry->name) == 0 && host[0] != '[' &&
	       inet_pton(AF_INET, host, address) != 1;
}

static size_t
names_hash(const char *name)
{
	uint32_t h = 2166136261u;       /* FNV-1a */

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h % NAMES_SLOTS;
}

/* The slot of NAME, or the free one where it belongs. */
static uint16_t *
names_slot(struct gate_names *names, const char *name)
{
	size_t i = names_hash(name);

	while (names->slots[i] != 0 && strcmp(names->entries[names->slots[i]].name, name) != 0)
		i = (i + 1) % NAMES_SLOTS;
	return &names->slots[i];
}

/* Rebuild the hash table from the file. */
static void
names_index(struct gate_names *names)
{
	uint16_t *slot;

	memset(names->slots, 0, sizeof(names->slots));
	for (uint32_t i = CELL_NET_RESERVED; i < names->used; i++) {
		slot = names_is_good(&names->entries[i]) ?
			names_slot(names, names->entries[i].name) : NULL;
		/* No name has two numbers. */
		if (slot != NULL && *slot == 0)
			*slot = (uint16_t)i;
		else
			memset(&names->entries[i], 0, sizeof(names->entries[i]));
	}
}

static void
names_set_used(struct gate_names *names, uint64_t used)
{
	if (used < CELL_NET_RESERVED)
		used = CELL_NET_RESERVED;
	if (used > CELL_NET_NAMES_MAX)
		used = CELL_NET_NAMES_MAX;
	names->entries[0].asked_ms = names->used = (uint32_t)used;
}

int
gate_names_new(int fd, struct gate_names **ret_names, struct err *err)
{
	struct gate_names *names;
	struct stat st;
	void *file;

	if (fstat(fd, &st) < 0 ||
	    (st.st_size < (off_t)NAMES_SIZE && ftruncate(fd, NAMES_SIZE) < 0))
		return err_errno(err, "cannot use the table of names");
	names = calloc(1, sizeof(*names));
	if (names == NULL)
		return err_errno(err, "cannot use the table of names");
	file = mmap(NULL, NAMES_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED) {
		free(names);
		return err_errno(err, "cannot use the table of names");
	}
	names->entries = file;
	names_set_used(names, names->entries[0].asked_ms);
	names_index(names);
	*ret_names = names;
	return 0;
}

void
gate_names_free(struct gate_names *names)
{
	if (names == NULL)
		return;
	munmap(names->entries, NAMES_SIZE);
	free(names);
}

/* All numbers are taken: reuse the one that was not asked for the longest, if that is long enough. */
static uint32_t
names_reuse(struct gate_names *names, uint64_t now_ms)
{
	uint32_t oldest = CELL_NET_RESERVED;

	for (uint32_t i = CELL_NET_RESERVED; i < CELL_NET_NAMES_MAX; i++)
		if (names->entries[i].asked_ms < names->entries[oldest].asked_ms)
			oldest = i;
	if (names->entries[oldest].asked_ms + GATE_NAMES_REUSE_MS > now_ms)
		return 0;
	memset(&names->entries[oldest], 0, sizeof(names->entries[oldest]));
	names_index(names);
	return oldest;
}

uint32_t
gate_names_add(struct gate_names *names, const char *name, uint64_t now_ms)
{
	uint16_t *slot = names_slot(names, name);
	uint32_t number = *slot;
	size_t len = strlen(name);

	if (number == 0) {
		if (len == 0 || len >= sizeof(names->entries[0].name))
			return 0;
		number = names->used < CELL_NET_NAMES_MAX ? names->used :
			names_reuse(names, now_ms);
		if (number == 0)
			return 0;
		if (number == names->used)
			names_set_used(names, number + 1);
		memcpy(names->entries[number].name, name, len + 1);
		*names_slot(names, name) = (uint16_t)number;
	}
	names->entries[number].asked_ms = now_ms;
	return number;
}

const char *
gate_names_get(const struct gate_names *names, uint32_t number)
{
	if (number < CELL_NET_RESERVED || number >= names->used ||
	    names->entries[number].name[0] == '\0')
		return NULL;
	return names->entries[number].name;
}
