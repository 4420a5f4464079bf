/* audit_programs.c - computes the hashes of the programs and images that dispatches ran again.
 *
 * What is in the store of images never changes.  A program of the host may rightly be replaced by a newer one: its
 * record is sound, but its hash cannot be computed again. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/fields.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "canon/hash.h"
#include "proc/audit/audit_verifier.h"

#define STORE "images"                  /* in the data folder */
#define LINES_MAX 32768                 /* bytes of all programs of one dispatch */
#define FILE_MAX_BYTES (16ull << 30)

/* ---- collecting ---- */

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* LINE is "HASH FILE". */
static int
add(struct audit_programs *p, const char *line, size_t len)
{
	for (size_t i = 0; i < p->n; i++)
		if (strlen(p->lines[i]) == len && strncmp(p->lines[i], line, len) == 0)
			return 0;
	if (p->n == AUDIT_PROGRAMS_MAX) {
		p->has_more = true;
		return 0;
	}
	p->lines[p->n] = strndup(line, len);
	return p->lines[p->n++] == NULL ? -ENOMEM : 0;
}

int
audit_programs_note(void *arg, const struct audit_record *record, const char *line, size_t len)
{
	static const char mark[] = "\"type\":\"dispatch.asked\"";
	OWN(freep) char *text = malloc(LINES_MAX);
	char image[HASH_NAME + 1], blob[HASH_NAME + 1 + PATH_MAX];
	struct audit_programs *p = arg;
	size_t n;
	int r = text == NULL ? -ENOMEM : 0;

	(void)line, (void)len;
	if (r < 0 || memmem(record->event.at, record->event.len, mark, sizeof(mark) - 1) == NULL)
		return r;
	if (audit_field_text(record->event, "programs", text, LINES_MAX))
		for (const char *at = text; r == 0 && *at != '\0'; at += n + (at[n] == '\n')) {
			n = strcspn(at, "\n");
			r = add(p, at, n);
		}
	if (r == 0 && p->store != NULL && audit_field_text(record->event, "image", image, sizeof(image))) {
		snprintf(blob, sizeof(blob), "%s %s/blobs/sha256/%s", image, p->store, image + strlen(HASH_PREFIX));
		r = add(p, blob, strlen(blob));
	}
	return r;
}

void
audit_programs_begin(struct audit_programs *p)
{
	OWN(freep) char *top = data_top(NULL);

	p->store = top == NULL ? NULL : str_format("%s/" STORE, top);
}

void
audit_programs_free(struct audit_programs *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->lines[i]);
	free(p->store);
	*p = (struct audit_programs){0};
}

/* ---- checking ---- */

/* The hash of FILE now; "" if it is gone. */
static int
hash_now(const char *file, char ret_hash[HASH_NAME + 1], struct err *err)
{
	OWN(closep) int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	unsigned char hash[HASH_LEN];
	struct stat st;
	uint64_t size;
	int r;

	ret_hash[0] = '\0';
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : err_errno(err, "cannot open it");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	r = hash_fd(fd, FILE_MAX_BYTES, hash, &size, err);
	if (r == 0)
		hash_name(hash, ret_hash);
	return r;
}

enum program_state { CHANGED, REPLACED, GONE };

static enum program_state
state_of(const char *now, bool in_store)
{
	return now[0] == '\0' ? GONE : in_store ? CHANGED : REPLACED;
}

static void
tell(struct audit_verifier *v, const char *file, const char *then, const char *now, enum program_state state)
{
	static const struct { const char *word, *text; } told[] = {
		[CHANGED] = { "changed", "it is not what ran" },
		[REPLACED] = { "replaced", "this machine has another one by now, so what ran cannot be computed again" },
		[GONE] = { "gone", "it was removed, so what ran cannot be computed again" },
	};

	if (v->args->json) {
		json_open(&v->out, NULL, '{');
		json_str(&v->out, "file", file);
		json_str(&v->out, "hash", then);
		if (now[0] != '\0')
			json_str(&v->out, "now", now);
		else
			json_none(&v->out, "now");
		json_str(&v->out, "state", told[state].word);
		json_bool(&v->out, "finding", state == CHANGED);
		json_close(&v->out, '}');
		return;
	}
	printf("program ");
	text_print_safe(stdout, file, strlen(file), false);
	printf(": %s: %s\n  it was %s\n", told[state].word, told[state].text, then);
	if (now[0] != '\0')
		printf("  it is  %s\n", now);
}

int
audit_verify_programs(struct audit_verifier *v, struct err *err)
{
	struct audit_programs *p = &v->programs;

	qsort(p->lines, p->n, sizeof(p->lines[0]), compare);
	for (size_t i = 0; i < p->n; i++) {
		const char *space = strchr(p->lines[i], ' '), *file = space != NULL ? space + 1 : "";
		bool in_store = p->store != NULL && tree_is_beneath(file, p->store);
		char then[HASH_NAME + 1], now[HASH_NAME + 1];
		struct err why = {0};

		if (space == NULL || (size_t)(space - p->lines[i]) != HASH_NAME || file[0] != '/')
			continue;
		snprintf(then, sizeof(then), "%.*s", (int)HASH_NAME, p->lines[i]);
		if (hash_now(file, now, &why) < 0)
			return err_set(err, why.code, "'%.200s': %s", file, why.text);
		if (strcmp(then, now) == 0)
			continue;
		if (state_of(now, in_store) == CHANGED)
			v->bad_programs++;
		else
			v->lost_programs++;
		tell(v, file, then, now, state_of(now, in_store));
	}
	return 0;
}
