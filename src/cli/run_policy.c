/* run_policy.c - the network access of a cell: -p, --allow, a cloister.yaml, --ca, --publish.
 *
 * Without any of the first three there is no network at all. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "cell/cell_policy.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "cli/run.h"
#include "http/proxy_url.h"
#include "policy/policy.h"
#include "policy/policy_behaviour.h"
#include "policy/policy_budget.h"
#include "policy/policy_calls.h"
#include "policy/policy_hook.h"
#include "policy/policy_tools.h"
#include "policy/policy_yaml.h"
#include "trust/trust.h"

#define AUTHORITIES_MAX (1 << 20)

int
run_add_word(const char *words[RUN_WORDS_MAX], size_t *n, const char *word, const char *option,
             struct err *err)
{
	if (*n == RUN_WORDS_MAX)
		return err_set(err, E2BIG, "%s is given more than %d times", option, RUN_WORDS_MAX);
	words[(*n)++] = word;
	return 0;
}

int
run_add_allow(struct run *run, const char *text, struct err *err)
{
	return run_add_word(run->allows, &run->n_allows, text, "--allow", err);
}

int
run_add_allow_of(struct run *run, const char *text, const char *file, size_t line, struct err *err)
{
	int r = run_add_allow(run, text, err);

	if (r < 0)
		return r;
	run->allow_places[run->n_allows - 1] = str_format(POLICY_OF_PROFILE "%s:%zu", file, line);
	return run->allow_places[run->n_allows - 1] == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
run_add_ca(struct run *run, const char *text, struct err *err)
{
	return run_add_word(run->cas, &run->n_cas, text, "--ca", err);
}

int
run_add_port(struct run *run, const char *text, struct err *err)
{
	struct cell_spec *spec = &run->spec;
	OWN(freep) char *host = strdup(text);
	char *colon = host == NULL ? NULL : strchr(host, ':');
	uint64_t inside, outside = 0;

	if (host == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (spec->n_ports == CELL_PORTS_MAX)
		return err_set(err, E2BIG, "--publish is given more than %d times", CELL_PORTS_MAX);
	if (colon != NULL)
		*colon = '\0';
	if (num_parse_count(colon != NULL ? colon + 1 : host, 1, 65535, &inside, err) < 0 ||
	    (colon != NULL && num_parse_count(host, 0, 65535, &outside, err) < 0))
		return err_wrap(err, "--publish '%s' is not [HOSTPORT:]CELLPORT", text);
	for (size_t i = 0; i < spec->n_ports; i++)
		if (outside != 0 && spec->ports[i].host == outside)
			return err_set(err, EEXIST, "--publish '%s': the host's port %u is given twice", text,
			               (unsigned)outside);
	spec->ports[spec->n_ports++] = (struct cell_port){ (uint16_t)inside, (uint16_t)outside };
	return 0;
}

int
run_seal(int fd, struct err *err)
{
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_errno(err, "cannot seal a memory file");
	return 0;
}

int
run_add_source(struct run *run, const char *path, struct err *err)
{
	OWN(freep) char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	OWN(freep) char *whole = str_format("%s%s%s", here != NULL ? here : "", path[0] == '/' ? "" : "/",
	                                    path);
	char **sources = run->spec.sources;
	size_t n = sources == NULL ? 0 : strv_len(sources);

	if (whole == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (strcmp(sources[i], whole) == 0)
			return 0;
	if (n == CELL_SOURCES_MAX)
		return err_set(err, E2BIG, "the policy and the secrets come from more than %d files",
		               CELL_SOURCES_MAX);
	sources = reallocarray(sources, n + 2, sizeof(*sources));
	if (sources == NULL)
		return err_set(err, ENOMEM, "out of memory");
	sources[n] = TAKE(whole);
	sources[n + 1] = NULL;
	run->spec.sources = sources;
	return 0;
}

/* ---- the policy file -------------------------------------------------------------- */

/* A file that nobody named counts only if it is the operator's own.  An agent that could write it
 * once, through an earlier cell's rw grant, would set its successor's rules. */
int
run_check_found(int folder, const char *where, struct err *err)
{
	OWN(freep) char *path = str_format("%s/" POLICY_CLI_FILE, where);
	struct stat st, above;

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (fstatat(folder, POLICY_CLI_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 || fstat(folder, &above) < 0)
		return err_errno(err, "cannot examine '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EPERM, "'%s' is not a regular file: name the policy with -p, or "
		               "use --no-policy", path);
	if ((st.st_mode & 022) != 0)
		return err_set(err, EPERM, "others may write '%s': `chmod go-w` it, or ignore it with "
		               "--no-policy", path);
	if (st.st_uid != 0 && st.st_uid != geteuid() &&
	    (geteuid() != 0 || st.st_uid != above.st_uid))
		return err_set(err, EPERM, "'%s' belongs to somebody else: read it, then name your own "
		               "copy with -p, or use --no-policy", path);
	return trust_path(TRUST_POLICY_FOUND, path, err) < 0 ?
	       err_wrap(err, "no cell was started (--no-policy starts one without this policy)") : 0;
}

/* For a policy_reader: a file that a found policy includes must be trustworthy, too. */
static int
check_extended(void *arg, const struct node *node, const char *path, struct err *err)
{
	struct run *run = arg;
	OWN(freep) char *whole = path[0] == '/' ? strdup(path) :
	                         str_format("%s/%s", run->policy_folder, path);
	struct err why = {0};

	if (whole == NULL)
		return err_set(err, ENOMEM, "out of memory");
	run->source.is_more = true;
	if (trust_path(TRUST_POLICY_EXTENDED, whole, &why) < 0)
		return node_err(err, node, "%s", why.text);
	return run_add_source(run, whole, err);
}

static int
take_file(void *arg, const struct node *node, const char *path, struct err *err)
{
	struct run *run = arg;
	struct err why = {0};

	run->source.is_more = true;
	if (trust_path(TRUST_POLICY_EXTENDED, path, &why) < 0)
		return node_err(err, node, "%s", why.text);
	return run_add_source(run, path, err);
}

static int
take_text(void *arg, const char *text, size_t len, struct err *err)
{
	struct run *run = arg;

	return policy_source_text(&run->source, text, len, err);
}

static int
take_rule(void *arg, const struct node *rule, struct err *err)
{
	struct run *run = arg;

	return policy_flat_rule(&run->source.flat, rule, err);
}

static int
take_part(void *arg, const struct node *key, const struct node *value, struct err *err)
{
	struct run *run = arg;

	return policy_flat_part(&run->source.flat, key, value, err);
}

const char *
run_find_project(const struct run *run)
{
	for (size_t i = 0; i < run->spec.n_grants; i++)
		if (run->spec.grants[i].workspace)
			return run->spec.grants[i].host;
	return ".";
}

/* A policy from another folder is reported even if nobody watches. */
static void
tell_found(const struct run *run, const char *where, bool is_above)
{
	if (!run->spec.quiet && (is_above || isatty(STDERR_FILENO)))
		fprintf(stderr, "cloister: the policy is %s/" POLICY_CLI_FILE "\n", where);
}

/* An agent's policy was read and accepted earlier, and a person may have taken long to do so. */
static int
check_accepted(const struct run *run, int folder, struct err *err)
{
	OWN(buf_free) struct buf text = BUF(POLICY_FLAT_MAX);
	bool is_accepted = true;
	int r = run->agent != NULL ? policy_cli_read(folder, &text, &is_accepted, err) : 0;

	if (r < 0 || is_accepted)
		return r;
	return err_set(err, EPERM, "the project's policy has changed since it was accepted: start the cell again");
}

/* A person has seen the servers of an accepted policy, and each runs in a cell.  A hook runs outside. */
static int
refuse_hook(void *arg, const struct node *node, const struct policy_hook *hook, struct err *err)
{
	(void)arg, (void)hook;
	return node_err(err, node, "a hook is the operator's own program: only a policy that is given with -p or --within can "
	                "have one");
}

/* 0 if there is none. */
static int
find_policy(struct run *run, struct policy **ret_policy, struct policy_limits *ret_limits,
            struct err *err)
{
	OWN(freep) char *where = realpath(run_find_project(run), NULL);
	OWN(closep) int folder = -1;
	const struct policy_reader reader = { .secrets = run_take_secrets, .arg = run,
	                                      .file = check_extended, .rule = take_rule,
	                                      .hook = run->policy_accepted ? refuse_hook : NULL,
	                                      .part = take_part, .text = take_text };
	unsigned up = 0;
	int r;

	folder = where == NULL ? -1 : policy_cli_find(where, POLICY_CLI_FILE, &up);
	if (folder < 0)
		return 0;
	for (unsigned i = 0; i < up; i++)
		*strrchr(where, '/') = '\0';
	r = run_check_found(folder, where, err);
	run->policy_found = true;
	run->policy_folder = where;
	if (r == 0)
		r = policy_load_file(folder, POLICY_CLI_FILE, &reader, ret_policy, ret_limits, err);
	run->policy_folder = NULL;
	r = r == 0 ? check_accepted(run, folder, err) : r;
	if (r == 0)
		tell_found(run, where, up > 0);
	return r;
}

static void
take_limit(uint64_t *limit, uint64_t said, struct cell_limits *limits, unsigned bit)
{
	if (said == 0 || (limits->asked & bit) != 0)
		return;
	*limit = said;
	limits->asked |= bit;
}

/* The command line takes precedence over the file. */
static void
take_limits(struct cell_limits *l, const struct policy_limits *said)
{
	bool disk_is_given = (l->asked & CELL_LIMIT_DISK) != 0;

	take_limit(&l->memory, said->memory, l, CELL_LIMIT_MEMORY);
	take_limit(&l->disk, said->disk, l, CELL_LIMIT_DISK);
	take_limit(&l->io, said->io, l, CELL_LIMIT_IO);
	take_limit(&l->cpus_milli, said->cpus_milli, l, CELL_LIMIT_CPUS);
	take_limit(&l->pids, said->pids, l, CELL_LIMIT_PIDS);
	take_limit(&l->time_ms, said->time_ms, l, CELL_LIMIT_TIME);
	if (!disk_is_given && said->disk != 0)
		l->inodes = cell_limits_inodes(said->disk);
}

/* ---- how fast it goes -------------------------------------------------------------- */

int
run_set_rate(struct run *run, const char *text, struct err *err)
{
	struct policy_rate rate;

	run->rate = text;
	return policy_rate_parse(text, &rate, err) < 0 ? err_wrap(err, "--rate") : 0;
}

int
run_set_bandwidth(struct run *run, const char *text, struct err *err)
{
	uint64_t bytes;

	run->bandwidth = text;
	if (num_parse_size(text, &bytes, err) < 0)
		return err_wrap(err, "--bandwidth");
	return bytes > 0 ? 0 : err_set(err, EINVAL, "--bandwidth '%s' must be greater than 0", text);
}

/* As if it were in the policy; the command line takes precedence. */
static int
put_flow(struct run *run, const char *name, const char *value, struct err *err)
{
	char key[] = "limits", name_text[16], value_text[32];
	struct node keys = { .kind = NODE_SCALAR, .text = key, .plain = true };
	struct node names = { .kind = NODE_SCALAR, .text = name_text, .plain = true };
	struct node values = { .kind = NODE_SCALAR, .text = value_text, .plain = true };
	struct node map = { .kind = NODE_MAP, .items = (struct node *[]){ &names },
	                    .values = (struct node *[]){ &values }, .n = 1 };

	if (value == NULL)
		return 0;
	snprintf(name_text, sizeof(name_text), "%s", name);
	snprintf(value_text, sizeof(value_text), "%s", value);
	run->source.is_more = true;
	return policy_flat_part(&run->source.flat, &keys, &map, err);
}

static int
finish_flow(const struct run *run, struct policy *policy, struct err *err)
{
	struct policy_rate rate;
	uint64_t bytes;

	if (policy == NULL && (run->rate != NULL || run->bandwidth != NULL))
		return err_set(err, EINVAL, "--rate and --bandwidth need a policy: add -p or --allow");
	if (run->rate != NULL && policy_rate_parse(run->rate, &rate, NULL) == 0)
		policy_set_rate(policy, rate);
	if (run->bandwidth != NULL && num_parse_size(run->bandwidth, &bytes, NULL) == 0)
		policy_set_bandwidth(policy, bytes);
	return 0;
}

int
run_load_policy_text(const char *name, const char *text, const struct policy_reader *reader,
                     struct policy **ret_policy, struct policy_limits *ret_limits,
                     struct err *err)
{
	OWN(node_freep) struct node *root = NULL;
	size_t len = strlen(text);
	int r = node_parse(name, text, len, &root, err);

	r = r == 0 ? reader->text(reader->arg, text, len, err) : r;
	return r < 0 ? r : policy_load_node(root, reader, ret_policy, ret_limits, err);
}

static int
load_policy(struct run *run, struct policy **ret_policy, struct err *err)
{
	const struct policy_reader reader = { .secrets = run_take_secrets, .arg = run,
	                                      .file = take_file, .hook = run_take_hook, .rule = take_rule,
	                                      .part = take_part, .text = take_text };
	struct policy_limits limits = {0};
	int r = 0;

	policy_source_init(&run->source);
	if (run->policy_file != NULL && run->no_policy)
		return err_set(err, EINVAL, "--no-policy and -p cannot be combined: remove one");
	r = put_flow(run, "rate", run->rate, err);
	r = r == 0 ? put_flow(run, "bandwidth", run->bandwidth, err) : r;
	if (r == 0 && run->tools_file != NULL) {
		OWN(closep) int fd = -1;
		OWN(freep) char *path = NULL;

		r = run_tools_policy(run, &path, &fd, err);
		r = r == 0 ? policy_load_file(AT_FDCWD, path, &reader, ret_policy, &limits, err) : r;
	} else if (r == 0 && run->policy_file != NULL) {
		r = trust_path(TRUST_POLICY, run->policy_file, err);
		r = r == 0 ? run_add_source(run, run->policy_file, err) : r;
		r = r == 0 ? policy_load_file(AT_FDCWD, run->policy_file, &reader, ret_policy, &limits,
		                              err) : r;
	}
	if (r == 0 && run->policy_text != NULL)
		r = run_load_policy_text(run->policy_name, run->policy_text, &reader, ret_policy, &limits,
		                         err);
	/* A document without a policy has no network, wherever it runs. */
	if (r == 0 && run->policy_file == NULL && run->tools_file == NULL && !run->no_policy && run->doc == NULL)
		r = find_policy(run, ret_policy, &limits, err);
	for (size_t i = 0; r == 0 && i < run->n_allows; i++)
		if ((r = policy_add_short_from(ret_policy, run->allows[i], run->allow_places[i], err)) == 0)
			r = policy_source_short(&run->source, run->allows[i], err);
	if (r == 0 && run->learn && *ret_policy == NULL) {
		*ret_policy = policy_new_empty();
		if (*ret_policy == NULL)
			r = err_set(err, ENOMEM, "out of memory");
	}
	r = r == 0 ? finish_flow(run, *ret_policy, err) : r;
	if (r < 0)
		return r;
	take_limits(&run->spec.limits, &limits);
	run->spec.exfiltration = limits.exfiltration == POLICY_EXFILTRATION_FREEZE ? CELL_FREEZE :
	                         limits.exfiltration == POLICY_EXFILTRATION_KILL ? CELL_KILL :
	                         limits.exfiltration == POLICY_EXFILTRATION_ROLLBACK ? CELL_ROLLBACK :
	                         CELL_REFUSE;
	run->spec.audit_strict = limits.audit == POLICY_AUDIT_STRICT;
	if (limits.audit_max != 0)
		run->spec.audit_max = limits.audit_max;
	run_finish_record(run, &limits);
	run->demanded = limits.boundary;
	r = run_take_states(run, &limits.states, err);
	r = r == 0 ? run_take_volumes(run, &limits.volumes, err) : r;
	r = r == 0 ? run_take_caches(run, &limits.caches, err) : r;
	return r < 0 ? r : policy_images_add(&run->images, &limits.images, err);
}

/* ---- certificate authorities ------------------------------------------------------- */

static int
add_authority(struct buf *all, const char *path, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = trust_read(TRUST_AUTHORITY, path, AUTHORITIES_MAX, &text, &len, err);

	if (r < 0)
		return err_wrap(err, "--ca '%s'", path);
	if (strlen(text) != len || strstr(text, "-----BEGIN CERTIFICATE-----") == NULL)
		return err_set(err, EINVAL, "--ca '%s' has no certificates in PEM form", path);
	if (strstr(text, "PRIVATE KEY-----") != NULL)
		return err_set(err, EINVAL, "--ca '%s' contains a private key, which must not enter "
		               "the cell: remove it", path);
	buf_put(all, text, len);
	buf_put(all, "\n", 1);
	return buf_failed(all) ? err_set(err, E2BIG, "the files of --ca are larger than %d MiB in all",
	                                 AUTHORITIES_MAX >> 20) : 0;
}

static int
add_authorities_of_doc(struct buf *all, const char *text, struct err *err)
{
	if (strstr(text, "-----BEGIN CERTIFICATE-----") == NULL || strstr(text, "PRIVATE KEY-----") != NULL)
		return err_set(err, EINVAL, "the cell document's authorities must be certificates in PEM "
		               "form, without a private key");
	buf_put(all, text, strlen(text));
	return 0;
}

int
run_read_authorities(const struct run *run, struct buf *ret_all, struct err *err)
{
	int r = run->authorities == NULL ? 0 : add_authorities_of_doc(ret_all, run->authorities, err);

	for (size_t i = 0; r == 0 && i < run->n_cas; i++)
		r = add_authority(ret_all, run->cas[i], err);
	return r;
}

static int
pack_authorities(struct run *run, struct err *err)
{
	OWN(buf_free) struct buf all;
	int r;

	buf_init(&all, AUTHORITIES_MAX);
	r = run_read_authorities(run, &all, err);
	for (size_t i = 0; r == 0 && i < run->n_cas; i++)
		r = run_add_source(run, run->cas[i], err);
	if (r < 0 || all.len == 0)
		return r;
	run->cas_fd = cell_policy_seal("authorities", all.data, all.len, err);
	run->spec.has_authorities = run->cas_fd >= 0;
	return run->cas_fd < 0 ? run->cas_fd : 0;
}

/* The proxies by which the operator's own machine reaches the network. */
static int
take_proxies(struct run *run, struct err *err)
{
	static const char *const names[] = {
		"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY",
		"https_proxy", "http_proxy", "all_proxy", "no_proxy",
		"CLOISTER_PROXY_RESOLVES", "SSL_CERT_FILE", "SSL_CERT_DIR",
	};
	size_t n = 0;
	int r;

	run->spec.egress_env = calloc(ARRAY_LEN(names) + 1, sizeof(char *));
	if (run->spec.egress_env == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *value = getenv(names[i]);

		if (value == NULL || *value == '\0')
			continue;
		if (strncmp(names[i], "SSL_", 4) == 0 && value[0] == '/' &&
		    (r = trust_path(TRUST_AUTHORITY, value, err)) < 0)
			return r;
		run->spec.egress_env[n] = str_format("%s=%s", names[i], value);
		if (run->spec.egress_env[n++] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	}
	return 0;
}

/* An unusable proxy should be reported now, not at the first request.  Only whether it can be
 * reached is not known before. */
static int
check_proxies(char *const *environment, struct err *err)
{
	static const char *const names[] = { "https_proxy", "http_proxy" };
	const char *none = proxy_url_find(environment, "no_proxy");

	if (none != NULL && strcmp(none + strlen("no_proxy="), "*") == 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *entry = proxy_url_find(environment, names[i]), *problem;
		struct proxy_url url;

		entry = entry != NULL ? entry : proxy_url_find(environment, "all_proxy");
		problem = entry == NULL ? NULL : proxy_url_parse(strchr(entry, '=') + 1, &url);
		explicit_bzero(&url, sizeof(url));
		if (problem != NULL)
			return err_set(err, EINVAL, "%.*s: %s: set it to another one, or unset it",
			               (int)strcspn(entry, "="), entry, problem);
	}
	return 0;
}

/* Includes all layers. */
static void
take_watch(struct run *run, const struct policy *policy)
{
	struct policy_watch watch;

	policy_watch(policy, &watch);
	memcpy(run->spec.watch.limits, watch.limits, sizeof(watch.limits));
	run->spec.watch.times = watch.times;
	run->spec.watch.principal = watch.principal;
	run->spec.watch.cpu = watch.cpu;
}

int
run_finish_policy(struct run *run, struct err *err)
{
	OWN(policy_freep) struct policy *policy = NULL;
	OWN(buf_free) struct buf b;
	int r;

	buf_init(&b, POLICY_ENCODED_MAX);
	r = run_distrust_grants(run, err);
	if (r == 0)
		r = load_policy(run, &policy, err);
	r = r == 0 ? run_finish_within(run, policy, err) : r;
	r = r == 0 ? run_finish_boundary(run, err) : r;
	if (r == 0 && policy == NULL && (run->n_cas > 0 || run->authorities != NULL))
		r = err_set(err, EINVAL, "--ca needs a policy: add -p or --allow");
	if (r < 0 || policy == NULL)
		return r;
	policy_put(&b, policy);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the policy is too large");
	run->policy_fd = cell_policy_seal("policy", b.data, b.len, err);
	if (run->policy_fd < 0)
		return run->policy_fd;
	buf_reset(&b);
	policy_source_put(&b, &run->source);
	run->policy_text_fd = cell_policy_seal("policy text", b.data, b.len, err);
	run->counts_fd = run->policy_text_fd < 0 ? -1 :
	                 cell_policy_counts(NULL, policy_n_rules(policy), err);
	if (run->counts_fd < 0)
		return run->policy_text_fd < 0 ? run->policy_text_fd : run->counts_fd;
	if (!run->spec.quiet)
		policy_cli_tell_freezing(policy, boundary_find(run->spec.boundary, NULL),
		                         run->spec.exfiltration == CELL_FREEZE);
	if (policy_narrows_exec(policy) && run->spec.profile == CELL_PROFILE_NESTED)
		return err_set(err, EINVAL, "the policy bounds which programs are started (`programs`, or `exec` in `syscalls`), and "
		               "--profile nested is for programs that start others in namespaces of their own: remove one of them");
	take_watch(run, policy);
	/* Without a record nothing sees what these rules are about. */
	if (policy_n_behaviours(policy) > 0)
		run_raise_record(&run->spec, &(struct policy_limits){ .record = POLICY_RECORD_ACTS });
	run->spec.has_policy = true;
	run->spec.has_hooks = policy_hooks(policy);
	run->spec.has_tools = policy_tools_of(policy) != NULL;
	run->spec.learn = run->learn;
	r = run_note_git(run, policy, err);
	r = r == 0 ? pack_authorities(run, err) : r;
	if (r == 0)
		r = take_proxies(run, err);
	return r < 0 ? r : check_proxies(run->spec.egress_env, err);
}
