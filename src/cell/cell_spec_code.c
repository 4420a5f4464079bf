/* cell_spec_code.c - the description of a cell as bytes, for its supervisor, and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_spec.h"

#define CELL_SPEC_VERSION 6
#define EGRESS_ENV_MAX 32
#define INNER_ID_MAX 65535

static void
put_limits(struct buf *b, const struct cell_limits *l)
{
	buf_put_u64(b, l->memory);
	buf_put_u64(b, l->disk);
	buf_put_u64(b, l->io);
	buf_put_u64(b, l->cpus_milli);
	buf_put_u64(b, l->pids);
	buf_put_u64(b, l->inodes);
	buf_put_u64(b, l->time_ms);
	buf_put_u64(b, l->ttl_ms);
	buf_put_u64(b, l->idle_pause_ms);
	buf_put_u32(b, l->asked);
}

static int
get_limits(struct buf *b, struct cell_limits *l)
{
	uint64_t *const fields[] = { &l->memory, &l->disk, &l->io, &l->cpus_milli,
	                             &l->pids, &l->inodes, &l->time_ms, &l->ttl_ms, &l->idle_pause_ms };

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (buf_get_u64(b, fields[i]) < 0)
			return -EBADMSG;
	return buf_get_u32(b, &l->asked);
}

static void
put_image(struct buf *b, const struct cell_image *image)
{
	buf_put_str(b, image->name);
	buf_put(b, image->digest, HASH_LEN);
	buf_put_strv(b, image->layers != NULL ? image->layers : (char *[]){ NULL });
	buf_put_u32(b, image->uid);
	buf_put_u32(b, image->gid);
	buf_put_u32(b, image->build);
	buf_put_u64(b, image->epoch);
}

enum { FLAG_ROOT = 1, FLAG_DETACHED = 2, FLAG_TTY = 4, FLAG_QUIET = 8, FLAG_POLICY = 16,
       FLAG_AUTHORITIES = 32, FLAG_LEARN = 64, FLAG_SECRETS = 128,
       FLAG_CLAIM = 256, FLAG_KEEP = 512, FLAG_STREAMS = 1024, FLAG_INPUT = 2048, FLAG_STRICT = 4096,
       FLAG_SOURCES = 8192, FLAG_CLIPBOARD = 16384, FLAG_HOOKS = 32768, FLAG_BOUNDARY = 65536,
       FLAG_VM = 131072, FLAG_VM_EMULATED = 262144, FLAG_WEAKER = 524288,
       FLAG_VM_BOOTS = 1048576, FLAG_VM_TAP = 2097152, FLAG_IMAGE = 4194304, FLAG_BARE = 8388608,
       FLAG_RUNTIME = 16777216, FLAG_BUNDLE = 33554432, FLAG_HELD = 67108864, FLAG_ENGINE = 134217728,
       FLAG_WAITS = 268435456, FLAG_RECORD = 536870912, FLAG_TOOLS = 1073741824 };
#define FLAG_MORE 0x80000000u           /* a second word of flags, and its fields, are at the end */
enum { MORE_SERIES = 1, MORE_STATES = 2, MORE_AGAIN = 4, MORE_FORK = 8, MORE_FLAGS = 15 };
enum { RECORD_LEVEL = 3, RECORD_DEMANDED = 4, RECORD_LOST_AT = 3, RECORD_FLAGS = 31 };
enum { BUNDLE_READONLY = 1, BUNDLE_METACOPY = 2, BUNDLE_FLAGS = 3 };
enum { GRANT_WORKSPACE = 1, GRANT_GIT_DIR = 2, GRANT_VOLUME = 4, GRANT_STATE = 8, GRANT_CACHE = 16, GRANT_FLAGS = 31 };

static void
put_bundle(struct buf *b, const struct cell_bundle *bundle)
{
	buf_put_strv(b, bundle->layers);
	buf_put_strv(b, bundle->scratches != NULL ? bundle->scratches : (char *[]){ NULL });
	buf_put_u32(b, bundle->uid);
	buf_put_u32(b, bundle->gid);
	buf_put_u32(b, bundle->n_groups);
	for (uint32_t i = 0; i < bundle->n_groups; i++)
		buf_put_u32(b, bundle->groups[i]);
	buf_put_u32(b, bundle->n_rlimits);
	for (uint32_t i = 0; i < bundle->n_rlimits; i++) {
		buf_put_u32(b, bundle->rlimits[i].what);
		buf_put_u64(b, bundle->rlimits[i].soft);
		buf_put_u64(b, bundle->rlimits[i].hard);
	}
	buf_put_u32(b, bundle->first_uid);
	buf_put_u32(b, bundle->first_gid);
	buf_put_u32(b, (bundle->readonly ? BUNDLE_READONLY : 0) | (bundle->metacopy ? BUNDLE_METACOPY : 0));
}

static void
put_states(struct buf *b, const struct cell_spec *spec)
{
	buf_put_u32(b, (uint32_t)spec->n_states);
	for (size_t i = 0; i < spec->n_states; i++) {
		const struct cell_state *s = &spec->states[i];

		buf_put_str(b, s->name);
		buf_put_str(b, s->branch);
		buf_put_str(b, s->commit);
		buf_put_u32(b, s->grant);
		buf_put_u32(b, s->number);
		buf_put_u32(b, s->quiet);
		buf_put_u64(b, s->every_ms);
		buf_put_str(b, s->guards);
	}
}

void
cell_spec_put(struct buf *b, const struct cell_spec *spec)
{
	const uint32_t more = (spec->series[0] != '\0' ? MORE_SERIES : 0) | (spec->n_states > 0 ? MORE_STATES : 0) |
	                      (spec->again != NULL ? MORE_AGAIN : 0) | (spec->fork_of.id[0] != '\0' ? MORE_FORK : 0);

	buf_put_u32(b, CELL_SPEC_VERSION);
	buf_put_str(b, spec->id);
	buf_put_str(b, spec->name);
	buf_put_str(b, spec->hostname);
	buf_put_str(b, spec->cwd);
	buf_put_str(b, spec->rootfs);
	buf_put_strv(b, spec->argv);
	buf_put_strv(b, spec->env);
	buf_put_u32(b, (uint32_t)spec->n_grants);
	for (size_t i = 0; i < spec->n_grants; i++) {
		const struct cell_grant *g = &spec->grants[i];

		buf_put_str(b, g->host);
		buf_put_str(b, g->cell);
		buf_put_u32(b, g->access);
		buf_put_u32(b, (g->workspace ? GRANT_WORKSPACE : 0) |
		               (g->git_dir ? GRANT_GIT_DIR : 0) | (g->volume ? GRANT_VOLUME : 0) |
		               (g->state ? GRANT_STATE : 0) | (g->cache != NULL ? GRANT_CACHE : 0));
		if (g->cache != NULL)
			buf_put_str(b, g->cache);
		if (g->access == CELL_VOLUME) {
			buf_put_str(b, g->out != NULL ? g->out : "");
			buf_put_u64(b, g->size);
			buf_put_u64(b, g->entries);
		}
	}
	put_limits(b, &spec->limits);
	buf_put_u32(b, spec->profile);
	buf_put_u32(b, (spec->root ? FLAG_ROOT : 0) | (spec->detached ? FLAG_DETACHED : 0) |
	               (spec->tty ? FLAG_TTY : 0) | (spec->quiet ? FLAG_QUIET : 0) |
	               (spec->has_policy ? FLAG_POLICY : 0) |
	               (spec->has_authorities ? FLAG_AUTHORITIES : 0) |
	               (spec->learn ? FLAG_LEARN : 0) | (spec->has_secrets ? FLAG_SECRETS : 0) |
	               (spec->claim ? FLAG_CLAIM : 0) | (spec->keep ? FLAG_KEEP : 0) |
	               (spec->streams ? FLAG_STREAMS : 0) | (spec->input ? FLAG_INPUT : 0) |
	               (spec->audit_strict ? FLAG_STRICT : 0) | (spec->clipboard ? FLAG_CLIPBOARD : 0) |
	               (spec->sources != NULL ? FLAG_SOURCES : 0) | (spec->has_hooks ? FLAG_HOOKS : 0) |
	               (spec->has_tools ? FLAG_TOOLS : 0) |
	               (spec->boundary[0] != '\0' ? FLAG_BOUNDARY : 0) | (spec->vm_kernel != NULL ? FLAG_VM : 0) |
	               (spec->vm_emulated ? FLAG_VM_EMULATED : 0) | (spec->weaker != NULL ? FLAG_WEAKER : 0) |
	               (spec->vm_boots ? FLAG_VM_BOOTS : 0) | (spec->vm_tap ? FLAG_VM_TAP : 0) |
	               (spec->image.name != NULL ? FLAG_IMAGE : 0) | (spec->bare ? FLAG_BARE : 0) |
	               (spec->runtime != NULL ? FLAG_RUNTIME : 0) | (spec->bundle.layers != NULL ? FLAG_BUNDLE : 0) |
	               (spec->held ? FLAG_HELD : 0) | (spec->engine != NULL ? FLAG_ENGINE : 0) |
	               (spec->waits ? FLAG_WAITS : 0) | (spec->record != CELL_RECORD_OFF ? FLAG_RECORD : 0) |
	               (more != 0 ? FLAG_MORE : 0));
	buf_put_strv(b, spec->egress_env != NULL ? spec->egress_env : (char *[]){ NULL });
	buf_put_u32(b, (uint32_t)spec->n_ports);
	for (size_t i = 0; i < spec->n_ports; i++)
		buf_put_u32(b, (uint32_t)spec->ports[i].cell << 16 | spec->ports[i].host);
	buf_put_u32(b, spec->webhook_ports);
	buf_put_str(b, spec->known_hosts != NULL ? spec->known_hosts : "");
	buf_put_strv(b, spec->placeholders != NULL ? spec->placeholders : (char *[]){ NULL });
	buf_put_strv(b, spec->secrets != NULL ? spec->secrets : (char *[]){ NULL });
	buf_put_u32(b, spec->exfiltration);
	buf_put_u32(b, spec->keeper);
	buf_put_u32(b, (uint32_t)spec->n_files);
	for (size_t i = 0; i < spec->n_files; i++) {
		buf_put_str(b, spec->files[i].path);
		buf_put_str(b, spec->files[i].text);
	}
	buf_put_strv(b, spec->setups != NULL ? spec->setups : (char *[]){ NULL });
	buf_put_strv(b, spec->starts != NULL ? spec->starts : (char *[]){ NULL });
	buf_put_str(b, spec->principal != NULL ? spec->principal : "");
	buf_put_str(b, spec->chain != NULL ? spec->chain : "");
	buf_put_u64(b, spec->audit_max);
	for (size_t i = 0; i < 8; i++)
		buf_put_u64(b, spec->watch.limits[i >> 2][i >> 1 & 1][i & 1]);
	buf_put_u32(b, (spec->watch.times ? 1 : 0) | (spec->watch.principal ? 2 : 0) |
	               (spec->watch.cpu ? 4 : 0));
	if (spec->sources != NULL)
		buf_put_strv(b, spec->sources);
	if (spec->boundary[0] != '\0')
		buf_put_str(b, spec->boundary);
	if (spec->vm_kernel != NULL) {
		buf_put_str(b, spec->vm_kernel);
		buf_put_str(b, spec->vm_initramfs);
		buf_put(b, spec->vm_kernel_hash, HASH_LEN);
		buf_put(b, spec->vm_initramfs_hash, HASH_LEN);
		buf_put_str(b, spec->vm_monitor);
		buf_put_str(b, spec->vm_disk != NULL ? spec->vm_disk : "");
		buf_put(b, spec->vm_disk_hash, HASH_LEN);
	}
	if (spec->weaker != NULL)
		buf_put_str(b, spec->weaker);
	if (spec->image.name != NULL)
		put_image(b, &spec->image);
	if (spec->runtime != NULL) {
		buf_put_str(b, spec->runtime);
		buf_put_str(b, spec->runtime_kind);
	}
	if (spec->bundle.layers != NULL)
		put_bundle(b, &spec->bundle);
	if (spec->engine != NULL)
		buf_put_str(b, spec->engine);
	if (spec->record != CELL_RECORD_OFF)
		buf_put_u32(b, spec->record | (spec->record_demanded ? RECORD_DEMANDED : 0u) |
		               (uint32_t)spec->record_lost << RECORD_LOST_AT);
	if (more != 0)
		buf_put_u32(b, more);
	if ((more & MORE_SERIES) != 0) {
		buf_put_str(b, spec->series);
		buf_put_str(b, spec->restart_of);
	}
	if ((more & MORE_STATES) != 0) {
		put_states(b, spec);
	}
	if ((more & MORE_AGAIN) != 0) {
		buf_put_strv(b, spec->again);
		buf_put_str(b, spec->again_in);
	}
	if ((more & MORE_FORK) != 0) {
		buf_put_str(b, spec->fork_of.id);
		buf_put_u64(b, spec->fork_of.at);
		buf_put_str(b, spec->fork_of.head);
	}
}

static int
get_watch(struct buf *b, struct cell_spec *spec)
{
	uint32_t flags;

	for (size_t i = 0; i < 8; i++)
		if (buf_get_u64(b, &spec->watch.limits[i >> 2][i >> 1 & 1][i & 1]) < 0)
			return -EBADMSG;
	if (buf_get_u32(b, &flags) < 0 || flags > 7)
		return -EBADMSG;
	spec->watch.times = (flags & 1) != 0;
	spec->watch.principal = (flags & 2) != 0;
	spec->watch.cpu = (flags & 4) != 0;
	return 0;
}

static int
get_sources(struct buf *b, struct cell_spec *spec)
{
	int r = buf_dup_strv(b, CELL_SOURCES_MAX, &spec->sources);

	for (size_t i = 0; r == 0 && (i == 0 || spec->sources[i] != NULL); i++)
		if (spec->sources[i] == NULL || spec->sources[i][0] != '/')
			r = -EBADMSG;
	return r;
}

static int
get_boundary(struct buf *b, struct cell_spec *spec)
{
	const char *name;

	if (buf_get_str(b, &name) < 0 || name[0] == '\0' || strlen(name) > CELL_BOUNDARY_MAX)
		return -EBADMSG;
	memcpy(spec->boundary, name, strlen(name) + 1);
	return 0;
}

static int
get_hash(struct buf *b, unsigned char ret_hash[HASH_LEN])
{
	if (buf_left(b) < HASH_LEN)
		return -EBADMSG;
	memcpy(ret_hash, b->data + b->pos, HASH_LEN);
	b->pos += HASH_LEN;
	return 0;
}

static int
get_disk(struct buf *b, struct cell_spec *spec)
{
	const char *path;

	if (buf_get_str(b, &path) < 0 || (path[0] != '\0' && path[0] != '/') || get_hash(b, spec->vm_disk_hash) < 0)
		return -EBADMSG;
	spec->vm_disk = path[0] == '\0' ? NULL : strdup(path);
	return path[0] != '\0' && spec->vm_disk == NULL ? -ENOMEM : 0;
}

static int
get_vm(struct buf *b, struct cell_spec *spec)
{
	const char *monitor;
	int r = buf_dup_str(b, &spec->vm_kernel);

	r = r == 0 ? buf_dup_str(b, &spec->vm_initramfs) : r;
	r = r == 0 ? get_hash(b, spec->vm_kernel_hash) : r;
	r = r == 0 ? get_hash(b, spec->vm_initramfs_hash) : r;
	if (r == 0 && (buf_get_str(b, &monitor) < 0 || strlen(monitor) > CELL_MONITOR_MAX))
		return -EBADMSG;
	if (r == 0)
		memcpy(spec->vm_monitor, monitor, strlen(monitor) + 1);
	r = r == 0 ? get_disk(b, spec) : r;
	return r == 0 && (spec->vm_kernel[0] != '/' || spec->vm_initramfs[0] != '/') ? -EBADMSG : r;
}

static int
get_image(struct buf *b, struct cell_image *image)
{
	int r = buf_dup_str(b, &image->name);
	uint32_t build = 0;

	r = r == 0 ? get_hash(b, image->digest) : r;
	r = r == 0 ? buf_dup_strv(b, CELL_LAYERS_MAX, &image->layers) : r;
	if (r == 0 && (buf_get_u32(b, &image->uid) < 0 || buf_get_u32(b, &image->gid) < 0 ||
	               buf_get_u32(b, &build) < 0 || build > 1 || buf_get_u64(b, &image->epoch) < 0))
		r = -EBADMSG;
	image->build = build == 1;
	for (size_t i = 0; r == 0 && image->layers[i] != NULL; i++)
		if (image->layers[i][0] != '/')
			r = -EBADMSG;
	/* An engine has them itself. */
	if (r == 0 && image->layers[0] == NULL) {
		strv_free(image->layers);
		image->layers = NULL;
	}
	return r == 0 && strlen(image->name) > CELL_IMAGE_NAME_MAX ? -EBADMSG : r;
}

static int
get_runtime(struct buf *b, struct cell_spec *spec)
{
	const char *kind;
	int r = buf_dup_str(b, &spec->runtime);

	if (r == 0 && (spec->runtime[0] != '/' || buf_get_str(b, &kind) < 0 || strlen(kind) > CELL_RUNTIME_MAX))
		r = -EBADMSG;
	if (r == 0)
		memcpy(spec->runtime_kind, kind, strlen(kind) + 1);
	return r;
}

static int
get_rlimits(struct buf *b, struct cell_bundle *bundle)
{
	if (buf_get_u32(b, &bundle->n_rlimits) < 0 || bundle->n_rlimits > CELL_RLIMITS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < bundle->n_rlimits; i++) {
		struct cell_rlimit *limit = &bundle->rlimits[i];

		if (buf_get_u32(b, &limit->what) < 0 || limit->what >= CELL_RLIMITS_MAX ||
		    buf_get_u64(b, &limit->soft) < 0 || buf_get_u64(b, &limit->hard) < 0)
			return -EBADMSG;
	}
	return 0;
}

static int
get_bundle(struct buf *b, struct cell_bundle *bundle)
{
	uint32_t flags;
	int r = buf_dup_strv(b, CELL_BUNDLE_LAYERS_MAX, &bundle->layers);

	r = r == 0 ? buf_dup_strv(b, CELL_SCRATCHES_MAX, &bundle->scratches) : r;
	if (r < 0)
		return r;
	for (char **layer = bundle->layers; *layer != NULL; layer++)
		if ((*layer)[0] != '/')
			return -EBADMSG;
	for (char **at = bundle->scratches; *at != NULL; at++)
		if ((*at)[0] != '/')
			return -EBADMSG;
	if (bundle->layers[0] == NULL || buf_get_u32(b, &bundle->uid) < 0 || buf_get_u32(b, &bundle->gid) < 0 ||
	    buf_get_u32(b, &bundle->n_groups) < 0 || bundle->n_groups > CELL_GROUPS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < bundle->n_groups; i++)
		if (buf_get_u32(b, &bundle->groups[i]) < 0 || bundle->groups[i] > INNER_ID_MAX)
			return -EBADMSG;
	if (get_rlimits(b, bundle) < 0)
		return -EBADMSG;
	if (bundle->uid > INNER_ID_MAX || bundle->gid > INNER_ID_MAX || buf_get_u32(b, &bundle->first_uid) < 0 || buf_get_u32(b, &bundle->first_gid) < 0 ||
	    buf_get_u32(b, &flags) < 0 || (flags & ~(uint32_t)BUNDLE_FLAGS) != 0)
		return -EBADMSG;
	bundle->readonly = (flags & BUNDLE_READONLY) != 0;
	bundle->metacopy = (flags & BUNDLE_METACOPY) != 0;
	return 0;
}

static int
get_engine(struct buf *b, struct cell_spec *spec)
{
	int r = buf_dup_str(b, &spec->engine);

	return r == 0 && (spec->engine[0] != '/' || spec->image.name == NULL) ? -EBADMSG : r;
}

static int
get_record(struct buf *b, struct cell_spec *spec)
{
	uint32_t flags;

	if (buf_get_u32(b, &flags) < 0 || (flags & ~(uint32_t)RECORD_FLAGS) != 0 || (flags & RECORD_LEVEL) == 0 ||
	    (flags & RECORD_LEVEL) > CELL_RECORD_FULL || flags >> RECORD_LOST_AT > CELL_LOST_KILL)
		return -EBADMSG;
	spec->record = flags & RECORD_LEVEL;
	spec->record_demanded = (flags & RECORD_DEMANDED) != 0;
	spec->record_lost = flags >> RECORD_LOST_AT;
	return 0;
}

static int
get_id(struct buf *b, char ret_id[CELL_ID_LEN + 1])
{
	const char *id;

	if (buf_get_str(b, &id) < 0 || (id[0] != '\0' && !cell_id_ok(id)))
		return -EBADMSG;
	memcpy(ret_id, id, strlen(id) + 1);
	return 0;
}

static int
get_state(struct buf *b, const struct cell_spec *spec, struct cell_state *s)
{
	uint32_t quiet = 0;
	int r = buf_dup_str(b, &s->name);

	r = r == 0 ? buf_dup_str(b, &s->branch) : r;
	r = r == 0 ? buf_dup_str(b, &s->commit) : r;
	if (r < 0)
		return r;
	if (buf_get_u32(b, &s->grant) < 0 || s->grant >= spec->n_grants || buf_get_u32(b, &s->number) < 0 ||
	    s->number >= CELL_STATES_MAX || buf_get_u32(b, &quiet) < 0 || quiet > 1 || buf_get_u64(b, &s->every_ms) < 0 ||
	    s->name[0] == '\0' || strlen(s->commit) > CELL_COMMIT_MAX)
		return -EBADMSG;
	s->quiet = quiet == 1;
	r = buf_dup_str(b, &s->guards);
	return r < 0 || strlen(s->guards) > CELL_GUARDS_MAX ? -EBADMSG : 0;
}

static int
get_again(struct buf *b, struct cell_spec *spec)
{
	int r = buf_dup_strv(b, CELL_ARGS_MAX, &spec->again);

	r = r == 0 ? buf_dup_str(b, &spec->again_in) : r;
	return r == 0 && spec->again_in[0] != '/' ? -EBADMSG : r;
}

static int
get_origin(struct buf *b, struct cell_origin *origin)
{
	const char *head;

	if (get_id(b, origin->id) < 0 || origin->id[0] == '\0' || buf_get_u64(b, &origin->at) < 0 ||
	    buf_get_str(b, &head) < 0 || strlen(head) > HASH_HEX)
		return -EBADMSG;
	memcpy(origin->head, head, strlen(head) + 1);
	return 0;
}

static int
get_more(struct buf *b, struct cell_spec *spec)
{
	uint32_t more, n = 0;
	int r = 0;

	if (buf_get_u32(b, &more) < 0 || (more & ~(uint32_t)MORE_FLAGS) != 0 || more == 0)
		return -EBADMSG;
	if ((more & MORE_SERIES) != 0 && (get_id(b, spec->series) < 0 || spec->series[0] == '\0' ||
	                                  get_id(b, spec->restart_of) < 0))
		return -EBADMSG;
	if ((more & MORE_STATES) != 0 && (buf_get_u32(b, &n) < 0 || n == 0 || n > CELL_STATES_MAX))
		return -EBADMSG;
	while (r == 0 && spec->n_states < n) {
		/* Count it first, so that its memory is freed on failure. */
		spec->n_states++;
		r = get_state(b, spec, &spec->states[spec->n_states - 1]);
	}
	r = r == 0 && (more & MORE_AGAIN) != 0 ? get_again(b, spec) : r;
	return r == 0 && (more & MORE_FORK) != 0 ? get_origin(b, &spec->fork_of) : r;
}

static int
get_file(struct buf *b, struct cell_file *f)
{
	int r = buf_dup_str(b, &f->path);

	if (r == 0)
		r = buf_dup_str(b, &f->text);
	return r < 0 || cell_file_ok(f->path) ? r : -EBADMSG;
}

static int
get_secrets(struct buf *b, struct cell_spec *spec)
{
	uint32_t exfiltration, n;
	int r = buf_dup_strv(b, CELL_ARGS_MAX, &spec->placeholders);

	r = r == 0 ? buf_dup_strv(b, CELL_SECRETS_MAX, &spec->secrets) : r;
	if (r < 0)
		return r;
	if (buf_get_u32(b, &exfiltration) < 0 || exfiltration > CELL_ROLLBACK ||
	    buf_get_u32(b, &spec->keeper) < 0 || buf_get_u32(b, &n) < 0 || n > CELL_FILES_MAX)
		return -EBADMSG;
	spec->exfiltration = exfiltration;
	while (r == 0 && spec->n_files < n)
		r = get_file(b, &spec->files[spec->n_files++]);
	return r;
}

static int
get_dispatch(struct buf *b, struct cell_spec *spec)
{
	int r = buf_dup_strv(b, CELL_SETUPS_MAX, &spec->setups);

	if (r == 0)
		r = buf_dup_strv(b, CELL_STARTS_MAX, &spec->starts);
	if (r == 0)
		r = buf_dup_str(b, &spec->principal);
	if (r == 0)
		r = buf_dup_str(b, &spec->chain);
	if (r < 0)
		return r;
	for (char **path = spec->setups; *path != NULL; path++)
		if ((*path)[0] != '/')
			return -EBADMSG;
	return cell_principal_ok(spec->principal) && cell_chain_ok(spec->chain) ? 0 : -EBADMSG;
}

static int
get_grant(struct buf *b, struct cell_grant *g)
{
	uint32_t access, flags;
	int r;

	r = buf_dup_str(b, &g->host);
	if (r == 0)
		r = buf_dup_str(b, &g->cell);
	if (r < 0)
		return r;
	if (buf_get_u32(b, &access) < 0 || access > CELL_VOLUME ||
	    buf_get_u32(b, &flags) < 0 || (flags & ~(uint32_t)GRANT_FLAGS) != 0 ||
	    g->host[0] != '/' || g->cell[0] != '/')
		return -EBADMSG;
	g->access = access;
	g->workspace = (flags & GRANT_WORKSPACE) != 0;
	g->git_dir = (flags & GRANT_GIT_DIR) != 0;
	g->volume = (flags & GRANT_VOLUME) != 0;
	g->state = (flags & GRANT_STATE) != 0;
	if ((flags & GRANT_CACHE) != 0 && (!g->volume || buf_dup_str(b, &g->cache) < 0))
		return -EBADMSG;
	if (access != CELL_VOLUME)
		return 0;
	r = buf_dup_str(b, &g->out);
	if (r < 0 || buf_get_u64(b, &g->size) < 0 || buf_get_u64(b, &g->entries) < 0 || !g->volume)
		return -EBADMSG;
	if (g->out[0] == '\0') {
		free(g->out);
		g->out = NULL;
	}
	return g->out == NULL || g->out[0] == '/' ? 0 : -EBADMSG;
}

static int
get_grants(struct buf *b, struct cell_spec *spec)
{
	uint32_t n;
	int r;

	if (buf_get_u32(b, &n) < 0 || n > CELL_GRANTS_MAX)
		return -EBADMSG;
	spec->grants = calloc((size_t)n + 1, sizeof(*spec->grants));
	if (spec->grants == NULL)
		return -ENOMEM;
	while (spec->n_grants < n) {
		/* Count it first, so that its memory is freed on failure. */
		r = get_grant(b, &spec->grants[spec->n_grants++]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int
get_egress(struct buf *b, struct cell_spec *spec)
{
	uint32_t n, port;
	int r;

	r = buf_dup_strv(b, EGRESS_ENV_MAX, &spec->egress_env);
	if (r < 0)
		return r;
	if (buf_get_u32(b, &n) < 0 || n > CELL_PORTS_MAX)
		return -EBADMSG;
	for (; spec->n_ports < n; spec->n_ports++) {
		if (buf_get_u32(b, &port) < 0 || port >> 16 == 0)
			return -EBADMSG;
		spec->ports[spec->n_ports].cell = (uint16_t)(port >> 16);
		spec->ports[spec->n_ports].host = (uint16_t)port;
	}
	if (buf_get_u32(b, &spec->webhook_ports) < 0 || (uint64_t)spec->webhook_ports >> n != 0)
		return -EBADMSG;
	r = buf_dup_str(b, &spec->known_hosts);
	return r == 0 && strlen(spec->known_hosts) > CELL_KNOWN_HOSTS_MAX ? -EBADMSG : r;
}

static int
get_head(struct buf *b, struct cell_spec *spec)
{
	char **const texts[] = { &spec->name, &spec->hostname, &spec->cwd, &spec->rootfs };
	uint32_t version;
	const char *id;
	int r;

	if (buf_get_u32(b, &version) < 0 || version != CELL_SPEC_VERSION ||
	    buf_get_str(b, &id) < 0 || strlen(id) != CELL_ID_LEN || !cell_name_ok(id))
		return -EBADMSG;
	memcpy(spec->id, id, sizeof(spec->id));
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		r = buf_dup_str(b, texts[i]);
		if (r < 0)
			return r;
	}
	if (spec->name[0] != '\0' && !cell_name_ok(spec->name))
		return -EBADMSG;
	r = buf_dup_strv(b, CELL_ARGS_MAX, &spec->argv);
	if (r == 0)
		r = buf_dup_strv(b, CELL_ARGS_MAX, &spec->env);
	return r;
}

int
cell_spec_get(struct buf *b, struct cell_spec *ret_spec, struct err *err)
{
	OWN(cell_spec_free) struct cell_spec spec = {0};
	uint32_t profile, flags;
	int r;

	r = get_head(b, &spec);
	if (r == 0)
		r = get_grants(b, &spec);
	if (r == 0)
		r = get_limits(b, &spec.limits);
	if (r == 0 && (buf_get_u32(b, &profile) < 0 || profile > CELL_PROFILE_NESTED ||
	               buf_get_u32(b, &flags) < 0))
		r = -EBADMSG;
	if (r == 0)
		r = get_egress(b, &spec);
	if (r == 0)
		r = get_secrets(b, &spec);
	if (r == 0)
		r = get_dispatch(b, &spec);
	if (r == 0 && (buf_get_u64(b, &spec.audit_max) < 0 || spec.audit_max < CELL_AUDIT_LEAST))
		r = -EBADMSG;
	if (r == 0)
		r = get_watch(b, &spec);
	if (r == 0 && (flags & FLAG_SOURCES) != 0)
		r = get_sources(b, &spec);
	if (r == 0 && (flags & FLAG_BOUNDARY) != 0)
		r = get_boundary(b, &spec);
	if (r == 0 && (flags & FLAG_VM) != 0)
		r = get_vm(b, &spec);
	if (r == 0 && (flags & FLAG_WEAKER) != 0)
		r = buf_dup_str(b, &spec.weaker);
	if (r == 0 && (flags & FLAG_IMAGE) != 0)
		r = get_image(b, &spec.image);
	if (r == 0 && (flags & FLAG_RUNTIME) != 0)
		r = get_runtime(b, &spec);
	if (r == 0 && (flags & FLAG_BUNDLE) != 0)
		r = get_bundle(b, &spec.bundle);
	if (r == 0 && spec.image.name != NULL && (spec.image.layers == NULL) != ((flags & FLAG_ENGINE) != 0))
		r = -EBADMSG;
	if (r == 0 && (flags & FLAG_ENGINE) != 0)
		r = get_engine(b, &spec);
	if (r == 0 && (flags & FLAG_RECORD) != 0)
		r = get_record(b, &spec);
	if (r == 0 && (flags & FLAG_MORE) != 0)
		r = get_more(b, &spec);
	if (r < 0)
		return err_set(err, -r, "the description of the cell is malformed");
	spec.profile = profile;
	spec.vm_emulated = (flags & FLAG_VM_EMULATED) != 0;
	spec.vm_boots = (flags & FLAG_VM_BOOTS) != 0;
	spec.vm_tap = (flags & FLAG_VM_TAP) != 0;
	spec.root = (flags & FLAG_ROOT) != 0;
	spec.bare = (flags & FLAG_BARE) != 0;
	spec.detached = (flags & FLAG_DETACHED) != 0;
	spec.tty = (flags & FLAG_TTY) != 0;
	spec.quiet = (flags & FLAG_QUIET) != 0;
	spec.clipboard = (flags & FLAG_CLIPBOARD) != 0;
	spec.has_policy = (flags & FLAG_POLICY) != 0;
	spec.has_authorities = (flags & FLAG_AUTHORITIES) != 0;
	spec.learn = (flags & FLAG_LEARN) != 0;
	spec.has_secrets = (flags & FLAG_SECRETS) != 0;
	spec.has_hooks = (flags & FLAG_HOOKS) != 0;
	spec.has_tools = (flags & FLAG_TOOLS) != 0;
	spec.claim = (flags & FLAG_CLAIM) != 0;
	spec.keep = (flags & FLAG_KEEP) != 0;
	spec.held = (flags & FLAG_HELD) != 0;
	spec.waits = (flags & FLAG_WAITS) != 0;
	spec.streams = (flags & FLAG_STREAMS) != 0;
	spec.input = (flags & FLAG_INPUT) != 0;
	spec.audit_strict = (flags & FLAG_STRICT) != 0;
	*ret_spec = spec;
	spec = (struct cell_spec){0};
	return 0;
}
