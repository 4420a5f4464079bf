/* run_within.c - --within: limits a cell to what other policies permit too. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cli/run.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"
#include "vault/vault_request.h"

struct run_layer {
	struct run *run;
	const char *file;
	const char *text;               /* a document's; NULL: it is in FILE */
	struct policy_source source;    /* its text, once it is loaded */
	struct secret_wants wants;      /* the secrets that it gives */
};

int
run_add_within_text(struct run *run, const char *name, const char *text, struct err *err)
{
	struct run_layer *grown;

	if (run->n_within == POLICY_GIVEN_MAX - 1)
		return err_set(err, E2BIG, "--within is given more than %d times", POLICY_GIVEN_MAX - 1);
	grown = realloc(run->within, (run->n_within + 1) * sizeof(*grown));
	if (grown == NULL)
		return err_set(err, ENOMEM, "out of memory");
	run->within = grown;
	memset(&grown[run->n_within], 0, sizeof(*grown));
	grown[run->n_within].run = run;
	grown[run->n_within].text = text;
	policy_source_init(&grown[run->n_within].source);
	grown[run->n_within++].file = name;
	return 0;
}

int
run_add_within(struct run *run, const char *file, struct err *err)
{
	return run_add_within_text(run, file, NULL, err);
}

void
run_free_within(struct run *run)
{
	while (run->n_within > 0) {
		struct run_layer *layer = &run->within[--run->n_within];

		secret_wants_free(&layer->wants);
		policy_source_free(&layer->source);
	}
	free(TAKE(run->within));
}

static int
take_secrets(void *arg, const struct node *node, struct err *err)
{
	struct run_layer *layer = arg;
	struct err why = {0};

	if (layer->text == NULL && trust_path(TRUST_SECRET_LIST, node->file, &why) < 0)
		return node_err(err, node, "%s", why.text);
	return secret_wants_read(&layer->wants, node, err);
}

static int
take_file(void *arg, const struct node *node, const char *path, struct err *err)
{
	struct run_layer *layer = arg;
	struct err why = {0};

	layer->source.is_more = true;
	if (trust_path(TRUST_POLICY_EXTENDED, path, &why) < 0)
		return node_err(err, node, "%s", why.text);
	return run_add_source(layer->run, path, err);
}

static int
take_text(void *arg, const char *text, size_t len, struct err *err)
{
	return policy_source_text(&((struct run_layer *)arg)->source, text, len, err);
}

static int
take_rule(void *arg, const struct node *rule, struct err *err)
{
	return policy_flat_rule(&((struct run_layer *)arg)->source.flat, rule, err);
}

static int
take_part(void *arg, const struct node *key, const struct node *value, struct err *err)
{
	return policy_flat_part(&((struct run_layer *)arg)->source.flat, key, value, err);
}

/* ---- limits ---- */

static void
narrow_limit(uint64_t *limit, uint64_t said, struct cell_limits *limits, unsigned bit)
{
	if (said == 0 || said > *limit)
		return;
	*limit = said;
	limits->asked |= bit;
}

static void
narrow_limits(struct cell_spec *spec, const struct policy_limits *said)
{
	struct cell_limits *l = &spec->limits;
	enum cell_exfiltration then = said->exfiltration == POLICY_EXFILTRATION_ROLLBACK ? CELL_ROLLBACK :
	                              said->exfiltration == POLICY_EXFILTRATION_KILL ? CELL_KILL :
	                              said->exfiltration == POLICY_EXFILTRATION_FREEZE ? CELL_FREEZE :
	                              CELL_REFUSE;

	narrow_limit(&l->memory, said->memory, l, CELL_LIMIT_MEMORY);
	if (said->disk != 0 && said->disk <= l->disk)
		l->inodes = cell_limits_inodes(said->disk);
	narrow_limit(&l->disk, said->disk, l, CELL_LIMIT_DISK);
	narrow_limit(&l->io, said->io, l, CELL_LIMIT_IO);
	narrow_limit(&l->cpus_milli, said->cpus_milli, l, CELL_LIMIT_CPUS);
	narrow_limit(&l->pids, said->pids, l, CELL_LIMIT_PIDS);
	narrow_limit(&l->time_ms, said->time_ms, l, CELL_LIMIT_TIME);
	if (then > spec->exfiltration)
		spec->exfiltration = then;
	spec->audit_strict |= said->audit == POLICY_AUDIT_STRICT;
	if (said->audit_max != 0 && said->audit_max < spec->audit_max)
		spec->audit_max = said->audit_max;
	run_raise_record(spec, said);
}

/* ---- rules ---- */

/* Binds each layer to the chain that applied to it: one agent shorter per layer. */
static int
bind(const struct run *run, struct policy *p, size_t layer, struct err *err)
{
	const struct cell_spec *spec = &run->spec;
	char chain[POLICY_CHAIN_MAX + 1];

	policy_chain_before(spec->chain != NULL ? spec->chain : "", layer, chain);
	return policy_bind(p, spec->principal != NULL ? spec->principal : "", chain, err);
}

static int
load(struct run_layer *layer, struct policy **ret_policy, struct policy_limits *ret_limits,
     struct err *err)
{
	const struct policy_reader reader = { .secrets = take_secrets, .file = take_file,
	                                      .hook = run_take_hook, .rule = take_rule,
	                                      .part = take_part, .text = take_text, .arg = layer };
	int r;

	if (layer->text != NULL)
		return run_load_policy_text(layer->file, layer->text, &reader, ret_policy, ret_limits, err);
	r = trust_path(TRUST_WITHIN, layer->file, err);
	r = r == 0 ? run_add_source(layer->run, layer->file, err) : r;
	return r < 0 ? r : policy_load_file(AT_FDCWD, layer->file, &reader, ret_policy, ret_limits, err);
}

int
run_put_within(const struct run *run, json_t *list, struct err *err)
{
	for (size_t i = 0; i < run->n_within; i++) {
		OWN(buf_free) struct buf text;

		buf_init(&text, POLICY_FILE_MAX);
		policy_source_put(&text, &run->within[i].source);
		if (buf_failed(&text) ||
		    json_array_append_new(list, json_pack("{s:s,s:s%}", "name", run->within[i].file, "text",
		                                          (const char *)text.data, text.len)) < 0)
			return err_set(err, E2BIG, "the policy '%s' does not fit a document",
			               run->within[i].file);
	}
	return 0;
}

int
run_finish_within(struct run *run, struct policy *policy, struct err *err)
{
	int r = policy != NULL ? bind(run, policy, 0, err) : 0;

	if (run->learn && run->n_within > 0)
		return err_set(err, EINVAL, "--within cannot be used with `learn`, which allows "
		               "everything");
	for (size_t i = 0; r == 0 && i < run->n_within; i++) {
		OWN(policy_freep) struct policy *outer = NULL;
		struct policy_limits limits = {0};

		r = load(&run->within[i], &outer, &limits, err);
		r = r == 0 ? bind(run, outer, i + 1, err) : r;
		if (r < 0)
			return r;
		narrow_limits(&run->spec, &limits);
		r = policy_boundary_raise(&run->demanded, &limits.boundary, err);
		r = r < 0 ? r : policy_images_add(&run->images, &limits.images, err);
		if (r == 0 && policy != NULL)
			r = policy_within(policy, &outer, err);
	}
	return r;
}

/* ---- secrets: those that all of them give ---- */

static bool
all_give(struct run *run, const char *name)
{
	for (size_t i = 0; i < run->n_within; i++) {
		if (secret_wants_find(&run->within[i].wants, name) != NULL)
			continue;
		if (!run->spec.quiet)
			fprintf(stderr, "cloister: the cell does not get the secret '%s': %s does not give it\n",
			        name, run->within[i].file);
		return false;
	}
	return true;
}

int
run_narrow_secrets(struct run *run, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n_secrets; i++) {
		struct secret_short s;
		int r = secret_short_parse(run->secrets[i], &s, err);

		if (r < 0)
			return r;
		if (all_give(run, s.name))
			run->secrets[n++] = run->secrets[i];
	}
	run->n_secrets = n;
	n = 0;
	for (size_t i = 0; i < run->wants.n; i++) {
		struct secret_want want = run->wants.at[i];

		if (all_give(run, want.said.name))
			run->wants.at[n++] = want;
		else
			secret_free(want.secret);
	}
	run->wants.n = n;
	return 0;
}

void
run_bind_within(struct run *run, struct vault_binding *b)
{
	for (size_t i = 0; i < run->n_within; i++) {
		struct secret_want *want = secret_wants_find(&run->within[i].wants, b->name);
		struct vault_layer *layer = &b->within[b->n_within++];

		layer->secret = TAKE(want->secret);
		layer->unless_known = want->unless_known;
	}
}
