/* policy_index.c - finds the rules that could match a host without checking each one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_parts.h"

/* FNV-1a from the end, so that hashing a name also yields the hashes of all its suffixes. */
#define HASH_START 2166136261u

static uint32_t
hash_step(uint32_t hash, char c)
{
	return (hash ^ (unsigned char)c) * 16777619u;
}

static uint32_t
hash_name(const char *name)
{
	uint32_t hash = HASH_START;

	for (size_t i = strlen(name); i > 0; i--)
		hash = hash_step(hash, name[i - 1]);
	return hash;
}

static struct policy_bucket *
bucket_for(const struct policy *p, uint32_t hash, enum policy_host_kind kind, const char *name)
{
	size_t i = (hash + kind) & (p->n_buckets - 1);

	while (p->buckets[i].name != NULL &&
	       (p->buckets[i].hash != hash || p->buckets[i].kind != kind ||
	        strcmp(p->buckets[i].name, name) != 0))
		i = (i + 1) & (p->n_buckets - 1);
	return &p->buckets[i];
}

static struct policy_bucket *
bucket_of_host(struct policy *p, const struct policy_host *host)
{
	struct policy_bucket *b;
	uint32_t hash;

	if (host->kind == POLICY_HOST_ANY)
		return &p->any;
	if (host->kind == POLICY_HOST_NET)
		return &p->nets;
	p->has_suffixes |= host->kind != POLICY_HOST_NAME;
	hash = hash_name(host->name);
	b = bucket_for(p, hash, host->kind, host->name);
	b->name = host->name;
	b->hash = hash;
	b->kind = host->kind;
	return b;
}

/* ---- summaries ---- */

#define ANY_METHOD UINT16_MAX

static uint16_t
method_bit(const char *name, size_t len)
{
	static const char *const known[] = { "GET", "POST", "PUT", "HEAD", "DELETE", "PATCH",
		"OPTIONS" };

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strlen(known[i]) == len && memcmp(known[i], name, len) == 0)
			return (uint16_t)(1u << i);
	return 1u << 15;                /* all other methods */
}

static uint64_t
load_head(const char *text, size_t len)
{
	uint64_t head = 0;

	memcpy(&head, text, len < sizeof(head) ? len : sizeof(head));
	return head;
}

/* The mask of the first N (1 to 7) of 8 bytes. */
static uint64_t
first_bytes(unsigned n)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return UINT64_MAX >> (64 - 8 * n);
#else
	return UINT64_MAX << (64 - 8 * n);
#endif
}

/* The length of the prefix that all paths share, before any glob character. */
static size_t
common_prefix(const struct policy_list *paths)
{
	size_t n = paths->n > 0 ? strcspn(paths->at[0], "*") : 0;

	for (size_t i = 1; i < paths->n; i++) {
		size_t k = 0;

		while (k < n && paths->at[i][k] == paths->at[0][k])
			k++;
		n = k;
	}
	return n;
}

static struct policy_entry
make_entry(const struct policy_rule *rule, size_t r, size_t h)
{
	struct policy_entry entry = { .rule = (uint16_t)r, .host = (uint16_t)h };
	size_t n = common_prefix(&rule->paths);

	for (size_t i = 0; i < rule->methods.n; i++)
		entry.methods |= method_bit(rule->methods.at[i], strlen(rule->methods.at[i]));
	entry.methods = rule->methods.n > 0 ? entry.methods : ANY_METHOD;
	entry.prefix = (uint16_t)n;
	if (n >= sizeof(entry.tail))
		memcpy(&entry.tail, rule->paths.at[0] + n - sizeof(entry.tail), sizeof(entry.tail));
	else if (n > 0)
		entry.tail = load_head(rule->paths.at[0], n);
	return entry;
}

static bool
is_ruled_out(const struct policy_walk *walk, const struct policy_entry *entry)
{
	uint64_t tail;

	if ((entry->methods & walk->method) == 0)
		return true;
	if (entry->prefix == 0 || walk->path == NULL)
		return false;
	if (entry->prefix > walk->path_len)
		return true;
	if (entry->prefix >= sizeof(tail)) {
		memcpy(&tail, walk->path + entry->prefix - sizeof(tail), sizeof(tail));
		return tail != entry->tail;
	}
	return (walk->path_head & first_bytes(entry->prefix)) != entry->tail;
}

/* ---- building ---- */

/* Call VISIT for each host of each rule that can match, in order. */
static void
each_host(struct policy *p, void (*visit)(struct policy *p, struct policy_bucket *b, size_t r,
                                          size_t h))
{
	for (size_t r = 0; r < p->n_rules; r++)
		for (size_t h = 0; p->rules[r].off == POLICY_ON && h < p->rules[r].n_hosts; h++)
			visit(p, bucket_of_host(p, &p->rules[r].hosts[h]), r, h);
}

static void
count_entry(struct policy *p, struct policy_bucket *b, size_t r, size_t h)
{
	(void)p, (void)r, (void)h;
	b->n++;
}

static void
put_entry(struct policy *p, struct policy_bucket *b, size_t r, size_t h)
{
	p->entries[b->first + b->n++] = make_entry(&p->rules[r], r, h);
}

static void
place_buckets(struct policy *p)
{
	struct policy_bucket *special[] = { &p->any, &p->nets };
	uint32_t at = 0;

	for (size_t i = 0; i < p->n_buckets + ARRAY_LEN(special); i++) {
		struct policy_bucket *b = i < p->n_buckets ? &p->buckets[i] :
		                          special[i - p->n_buckets];

		b->first = at;
		at += b->n;
		b->n = 0;
	}
}

int
policy_seal(struct policy *p, struct err *err)
{
	size_t hosts = 0;

	free(TAKE(p->entries));
	free(TAKE(p->buckets));
	p->n_buckets = 0;
	p->any = p->nets = (struct policy_bucket){0};
	p->has_suffixes = false;
	for (size_t r = 0; r < p->n_rules; r++) {
		hosts += p->rules[r].n_hosts;
		/* This loader reads no files, so the narrowing's file was never read. */
		if (p->rules[r].then != NULL && p->rules[r].then->narrow_file != NULL)
			return err_set(err, EINVAL, "%s: a file cannot be read from here", p->rules[r].place);
	}
	if (hosts == 0)
		return 0;
	if (hosts > POLICY_HOSTS_MAX)
		return err_set(err, E2BIG, "the rules name more than %d hosts", POLICY_HOSTS_MAX);
	for (p->n_buckets = 4; p->n_buckets < hosts * 2; p->n_buckets *= 2)
		;
	p->entries = calloc(hosts, sizeof(*p->entries));
	p->buckets = calloc(p->n_buckets, sizeof(*p->buckets));
	if (p->entries == NULL || p->buckets == NULL)
		return err_set(err, ENOMEM, "out of memory");
	each_host(p, count_entry);
	place_buckets(p);
	each_host(p, put_entry);
	return 0;
}

/* ---- walking ---- */

static void
walk_list(struct policy_walk *walk, const struct policy_bucket *b)
{
	const struct policy_entry *at = walk->p->entries;

	if (b->n == 0 || walk->n == POLICY_WALK_MAX)
		return;
	walk->lists[walk->n].at = at + b->first;
	walk->lists[walk->n++].end = at + b->first + b->n;
}

/* From the last label to the first: each dot ends a suffix. */
static void
walk_names(struct policy_walk *walk, const char *host)
{
	const struct policy *p = walk->p;
	bool machine = strcmp(host, POLICY_HOST_OF_MACHINE) == 0;
	const char *first_dot = strchr(host, '.');
	uint32_t hash = HASH_START;

	for (size_t i = strlen(host); i > 0; i--) {
		const char *at = host + i - 1;

		/* Patterns never match the machine itself, only its exact name does. */
		if (*at == '.' && p->has_suffixes && !machine) {
			walk_list(walk, bucket_for(p, hash, POLICY_HOST_UNDER, at + 1));
			if (at == first_dot)
				walk_list(walk, bucket_for(p, hash, POLICY_HOST_LABEL, at + 1));
		}
		hash = hash_step(hash, *at);
	}
	walk_list(walk, bucket_for(p, hash, POLICY_HOST_NAME, host));
	if (!machine)
		walk_list(walk, &p->any);
}

static void
walk_facts(struct policy_walk *walk, const struct policy_facts *facts)
{
	walk->method = ANY_METHOD;
	walk->path = NULL;
	if (facts == NULL)
		return;
	/* A method or path with two readings gets the full check. */
	if (!facts->names_method)
		walk->method = method_bit(facts->head->method.at, facts->head->method.len);
	if (facts->other != NULL || facts->names_path)
		return;
	walk->path = facts->path;
	walk->path_len = facts->path_len;
	walk->path_head = load_head(facts->path, facts->path_len);
}

void
policy_walk_init(struct policy_walk *walk, const struct policy *p, const char *host,
                 const struct policy_facts *facts)
{
	walk->p = p;
	walk->n = 0;
	walk_facts(walk, facts);
	walk->is_address = policy_address(host, walk->address);
	if (p->n_buckets == 0 || strlen(host) > HTTP_HOST_MAX)
		return;
	if (walk->is_address)
		walk_list(walk, &p->nets);
	else
		walk_names(walk, host);
}

static bool
comes_before(const struct policy_entry *a, const struct policy_entry *b)
{
	return a->rule != b->rule ? a->rule < b->rule : a->host < b->host;
}

/* The next entry, if there is only one list. */
static const struct policy_entry *
walk_one(struct policy_walk *walk)
{
	const struct policy_entry *at = walk->lists[0].at, *end = walk->lists[0].end;

	while (at < end && is_ruled_out(walk, at))
		at++;
	walk->lists[0].at = at < end ? at + 1 : at;
	walk->n = at + 1 < end;
	return at < end ? at : NULL;
}

static const struct policy_entry *
walk_many(struct policy_walk *walk)
{
	const struct policy_entry *entry;
	size_t first = 0;

	for (size_t i = 1; i < walk->n; i++)
		if (comes_before(walk->lists[i].at, walk->lists[first].at))
			first = i;
	entry = walk->lists[first].at++;
	if (walk->lists[first].at == walk->lists[first].end)
		walk->lists[first] = walk->lists[--walk->n];
	return entry;
}

const struct policy_entry *
policy_walk_next(struct policy_walk *walk)
{
	const struct policy_entry *entry;

	while (walk->n > 0) {
		entry = walk->n == 1 ? walk_one(walk) : walk_many(walk);
		if (entry == NULL || is_ruled_out(walk, entry))
			continue;
		if (!walk->is_address ||
		    policy_net_has(&walk->p->rules[entry->rule].hosts[entry->host], walk->address))
			return entry;
	}
	return NULL;
}
