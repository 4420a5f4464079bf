/* supervisor_policy_hash.c - the hash of a policy, by which records name it. */
#include <unistd.h>

#include "proc/supervisor/supervisor.h"

void
cell_policy_hash(struct cell_policy *p)
{
	unsigned char hash[HASH_LEN], bytes[16384];
	struct hash h;
	off_t at = 0;
	ssize_t n;

	hash_begin(&h);
	for (; (n = pread(p->policy, bytes, sizeof(bytes), at)) > 0; at += n)
		hash_add(&h, bytes, (size_t)n);
	hash_end(&h, hash);
	hash_name(hash, p->hash);
}

const char *
supervisor_policy_hash(struct supervisor *sv)
{
	struct cell_policy *p = &sv->egress.policy;

	if (p->hash[0] == '\0')
		cell_policy_hash(p);
	return p->hash;
}
