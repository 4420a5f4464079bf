/* policy_load_parts.c - loads the settings besides rules: limits, exfiltration, boundary, images, states, volumes, caches, timeline and record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_load.h"
#include "policy/policy_loading.h"

int
policy_note_fault(struct policy_loading *l, int r)
{
	struct policy_faults *faults = l->faults;

	if (r >= 0 || faults == NULL || r == -ENOMEM || r == -E2BIG || l->err == NULL)
		return r;
	if (faults->n < POLICY_FAULTS_MAX)
		faults->list[faults->n++] = *l->err;
	else
		faults->more = true;
	return faults->more ? r : 0;
}

static int
load_limit(struct policy_loading *l, const struct node *key, const struct node *node)
{
	static const char *const names[] = { "memory", "cpus", "pids", "time", "disk", "io",
		"bandwidth", "rate", NULL };
	static const uint64_t least[] = { POLICY_MEMORY_LEAST, POLICY_CPUS_MILLI_LEAST, 1, 1,
	                                  POLICY_DISK_LEAST, POLICY_IO_LEAST, 1, 1 };
	struct policy_limits *limits = &l->limits;
	char text[NUM_TEXT_MAX];
	uint64_t *at[] = { &limits->memory, &limits->cpus_milli, &limits->pids, &limits->time_ms,
	                   &limits->disk, &limits->io, &l->p->bandwidth, &l->p->rate.n };
	struct policy_rate rate = {0};
	struct err err = {0};
	uint64_t value = 0;
	size_t k;
	int r;

	for (k = 0; names[k] != NULL && strcmp(names[k], key->text) != 0; k++)
		;
	if (names[k] == NULL)
		return policy_read_unknown(key, names, "in `limits`", l->err);
	if (node->kind != NODE_SCALAR)
		return node_err(l->err, node, "a limit is a number such as 2G, 1h or 4");
	r = k == 1 ? num_parse_milli(node->text, &value, &err) :
	    k == 2 ? num_parse_count(node->text, 1, 1000000, &value, &err) :
	    k == 3 ? num_parse_duration(node->text, &value, &err) :
	    k == 7 ? policy_rate_parse(node->text, &rate, &err) :
	             num_parse_size(node->text, &value, &err);
	value = k == 7 ? rate.n : value;
	if (r == 0 && value == 0)
		r = err_set(&err, EINVAL, "a limit of nothing stops everything");
	if (r == 0 && value < least[k])
		r = err_set(&err, EINVAL, "under %s nothing runs",
		            k == 1 ? "0.01" : num_format_size(text, least[k]));
	if (r < 0)
		return node_err(l->err, node, "%s", err.text);
	/* A nearer file has set it. */
	if (*at[k] != 0)
		return 0;
	*at[k] = value;
	if (k == 7)
		l->p->rate.ms = rate.ms;
	return 0;
}

int
policy_load_limits(struct policy_loading *l, const struct node *node)
{
	int r = 0;

	if (node->kind != NODE_MAP)
		return node_err(l->err, node, "`limits` is a map: {memory: 2G, time: 1h}");
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = policy_note_fault(l, load_limit(l, node->items[i], node->values[i]));
	return r;
}

int
policy_load_exfiltration(struct policy_loading *l, const struct node *node)
{
	static const char *const names[] = { "refuse", "freeze", "kill", "rollback" };
	size_t k;

	for (k = 0; k < ARRAY_LEN(names); k++)
		if (node->kind == NODE_SCALAR && strcmp(node->text, names[k]) == 0)
			break;
	if (k == ARRAY_LEN(names))
		return node_err(l->err, node, "a cell that sends a secret where it may not go is left at "
		                "that, or stopped: `refuse`, `freeze`, `kill` or `rollback`");
	if (l->limits.exfiltration == POLICY_EXFILTRATION_UNSAID)
		l->limits.exfiltration = POLICY_EXFILTRATION_REFUSE + (unsigned)k;
	return 0;
}

int
policy_load_tripwires(struct policy_loading *l, const struct node *node,
                      enum policy_exfiltration before)
{
	enum policy_exfiltration outside = l->limits.exfiltration;
	const struct node *exfiltration;
	int r = policy_read_tripwires(l->p, node, &exfiltration, l->err);

	if (r < 0 || exfiltration == NULL)
		return r;
	l->limits.exfiltration = before;
	r = policy_load_exfiltration(l, exfiltration);
	if (outside > l->limits.exfiltration)
		l->limits.exfiltration = outside;
	return r;
}

int
policy_load_boundary(struct policy_loading *l, const struct node *node, const struct node *runtime)
{
	struct policy_boundary boundary = {0};
	int r = node == NULL ? 0 : policy_boundary_read(node, &boundary, l->err);

	if (r == 0 && boundary.by_engine)
		r = node_err(l->err, node, "a policy cannot demand '" BOUNDARY_DOCKER "', which is no stronger than '"
		             BOUNDARY_DEFAULT "'");
	if (r == 0 && runtime != NULL)
		r = policy_boundary_read_runtime(runtime, &boundary, l->err);
	if (r == 0 && !l->limits.boundary.is_set)
		l->limits.boundary = boundary;
	return r;
}

int
policy_load_images(struct policy_loading *l, const struct node *node)
{
	struct policy_images images;
	int r = policy_images_read(node, &images, l->err);

	if (r == 0 && !l->limits.images.is_set)
		l->limits.images = images;
	return r;
}

int
policy_load_states(struct policy_loading *l, const struct node *node)
{
	OWN(freep) struct policy_states *states = calloc(1, sizeof(*states));
	int r = states == NULL ? err_set(l->err, ENOMEM, "out of memory") : policy_states_read(node, states, l->err);

	if (r == 0 && l->limits.states.n == 0)
		l->limits.states = *states;
	return r;
}

int
policy_load_volumes(struct policy_loading *l, const struct node *node)
{
	OWN(freep) struct policy_volumes *volumes = calloc(1, sizeof(*volumes));
	int r = volumes == NULL ? err_set(l->err, ENOMEM, "out of memory") : policy_volumes_read(node, volumes, l->err);

	if (r == 0 && l->limits.volumes.n == 0)
		l->limits.volumes = *volumes;
	return r;
}

int
policy_load_caches(struct policy_loading *l, const struct node *node)
{
	OWN(freep) struct policy_volumes *caches = calloc(1, sizeof(*caches));
	int r = caches == NULL ? err_set(l->err, ENOMEM, "out of memory") : policy_caches_read(node, caches, l->err);

	if (r == 0 && l->limits.caches.n == 0)
		l->limits.caches = *caches;
	return r;
}

int
policy_load_run(struct policy_loading *l, const struct node *node)
{
	static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789-_";

	if (node->kind != NODE_SCALAR || node->text[0] == '\0' || node->text[0] == '-' || node->text[0] == '_' ||
	    node->text[strspn(node->text, name)] != '\0')
		return node_err(l->err, node, "`run` is the name of an agent's profile, such as claude");
	return 0;
}

static int
load_audit_mode(struct policy_loading *l, const struct node *node)
{
	bool strict = node->kind == NODE_SCALAR && strcmp(node->text, "strict") == 0;

	if (!strict && (node->kind != NODE_SCALAR || strcmp(node->text, "batched") != 0))
		return node_err(l->err, node, "a request waits until its record is on the disk, or does not: "
		                "`strict` or `batched`");
	if (l->limits.audit == POLICY_AUDIT_UNSAID)
		l->limits.audit = strict ? POLICY_AUDIT_STRICT : POLICY_AUDIT_BATCHED;
	return 0;
}

static int
load_audit_max(struct policy_loading *l, const struct node *node)
{
	uint64_t max;
	struct err why;

	if (node->kind != NODE_SCALAR || num_parse_size(node->text, &max, &why) < 0 ||
	    max < POLICY_AUDIT_LEAST || max > POLICY_AUDIT_MOST)
		return node_err(l->err, node, "a timeline's `max` is a size from 1M to 1T, such as 256M");
	if (l->limits.audit_max == 0)
		l->limits.audit_max = max;
	return 0;
}

/* A word, or {mode: strict, max: 256M}. */
int
policy_load_audit(struct policy_loading *l, const struct node *node)
{
	static const char *const names[] = { "mode", "max", NULL };
	int r = 0;

	if (node->kind != NODE_MAP)
		return load_audit_mode(l, node);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const char *key = node->items[i]->text;

		if (strcmp(key, "mode") == 0)
			r = policy_note_fault(l, load_audit_mode(l, node->values[i]));
		else if (strcmp(key, "max") == 0)
			r = policy_note_fault(l, load_audit_max(l, node->values[i]));
		else
			r = policy_note_fault(l, policy_read_unknown(node->items[i], names, "in `audit`", l->err));
	}
	return r;
}

/* The place of the node's word in WORDS, from 1 on; 0: it is none of them. */
static unsigned
place_of(const struct node *node, const char *const *words)
{
	for (unsigned i = 0; node->kind == NODE_SCALAR && words[i] != NULL; i++)
		if (strcmp(node->text, words[i]) == 0)
			return i + 1;
	return 0;
}

static int
load_record_level(struct policy_loading *l, const struct node *node)
{
	static const char *const words[] = { "off", "acts", "full", NULL };
	unsigned level = place_of(node, words);

	if (level == 0)
		return node_err(l->err, node, "what the cell's processes do is recorded: `off`, `acts` or `full`");
	if (l->limits.record == POLICY_RECORD_UNSAID)
		l->limits.record = level;
	return 0;
}

static int
load_record_lost(struct policy_loading *l, const struct node *node)
{
	static const char *const words[] = { "go-on", "freeze", "kill", NULL };
	unsigned lost = place_of(node, words);

	if (lost == 0)
		return node_err(l->err, node, "if nothing records the cell's processes any more, it can `freeze`, `kill` or `go-on`");
	if (l->limits.record_lost == POLICY_LOST_UNSAID)
		l->limits.record_lost = lost;
	return 0;
}

/* A word, or {level: acts, lost: freeze}. */
int
policy_load_record(struct policy_loading *l, const struct node *node)
{
	static const char *const names[] = { "level", "lost", NULL };
	int r = 0;

	if (node->kind != NODE_MAP)
		return load_record_level(l, node);
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const char *key = node->items[i]->text;

		if (strcmp(key, "level") == 0)
			r = policy_note_fault(l, load_record_level(l, node->values[i]));
		else if (strcmp(key, "lost") == 0)
			r = policy_note_fault(l, load_record_lost(l, node->values[i]));
		else
			r = policy_note_fault(l, policy_read_unknown(node->items[i], names, "in `record`", l->err));
	}
	return r;
}
