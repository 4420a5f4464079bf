/* audit_policy.c - checks that the file `policy` beside a cell's timeline is the one in the records. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "canon/hash.h"
#include "http/json_walk.h"
#include "proc/audit/audit_proc.h"

#define POLICY_MAX (8u << 20)           /* the limit of supervisors */

/* The mark is quick to find, and rare; quotes in texts are escaped. */
static bool
has(struct http_text event, const char *mark)
{
	return memmem(event.at, event.len, mark, strlen(mark)) != NULL;
}

static bool
is(struct http_text event, const char *name, const char *value)
{
	struct json_walk_item item;

	return json_walk_member(event, name, &item) == 1 && item.kind == JSON_WALK_STRING &&
	       json_walk_is(item.raw, value);
}

/* The member "policy", if there is one that is a hash. */
static bool
take_hash(struct audit_policy *p, struct http_text object, uint64_t n)
{
	struct json_walk_item item;
	char name[HASH_NAME + 1];
	size_t len;

	if (json_walk_member(object, "policy", &item) != 1 || item.kind != JSON_WALK_STRING ||
	    json_walk_decode(item.raw, name, HASH_NAME, &len) < 0)
		return false;
	name[len] = '\0';
	if (!hash_parse_name(name, p->hash))
		return false;
	p->n = n;
	return true;
}

void
audit_policy_note(struct audit_policy *p, const struct audit_record *record)
{
	struct http_text event = record->event;
	struct json_walk_item grant;

	if (has(event, "\"type\":\"cell.boot\"") && is(event, "type", "cell.boot")) {
		p->is_told = true;
		if (json_walk_member(event, "grant", &grant) == 1 && grant.kind == JSON_WALK_OBJECT)
			(void)take_hash(p, grant.raw, record->n);
	} else if (has(event, "\"type\":\"steer\"") && is(event, "type", "steer")) {
		p->may_be_gone |= take_hash(p, event, record->n);
	} else if (has(event, "\"did\":\"egress stopped\"")) {
		p->may_be_gone = true;
	} else if (!p->is_used) {
		p->is_used = is(event, "type", "http") || is(event, "type", "tcp") || is(event, "type", "tls");
	}
}

void
audit_policy_check(const struct audit_policy *p, int dir, struct audit_check *check)
{
	OWN(closep) int fd = openat(dir, CELL_POLICY, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	bool is_gone = fd < 0 && errno == ENOENT;
	unsigned char hash[HASH_LEN];
	uint64_t size;
	char text[AUDIT_FINDING_MAX], name[HASH_NAME + 1];
	struct stat st;

	if (!p->is_told || (is_gone && (p->n == 0 || !p->is_used || p->may_be_gone)))
		return;
	hash_name(p->hash, name);
	if (is_gone)
		snprintf(text, sizeof(text), "the policy is gone: it was %s", name);
	else if (p->n == 0)
		snprintf(text, sizeof(text), "there is a policy, and the cell was given none");
	else
		snprintf(text, sizeof(text), "this is not the policy that record %" PRIu64 " names: that "
		         "is %s", p->n, name);
	if (is_gone || p->n == 0)
		audit_check_fault(check, is_gone ? AUDIT_MISSING : AUDIT_ADDED, CELL_POLICY, text);
	else if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		audit_check_fault(check, AUDIT_UNREADABLE, CELL_POLICY, text);
	else if (hash_fd(fd, POLICY_MAX, hash, &size, NULL) < 0 || memcmp(hash, p->hash, HASH_LEN) != 0)
		audit_check_fault(check, AUDIT_CHANGED, CELL_POLICY, text);
}
