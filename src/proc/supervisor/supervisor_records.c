/* supervisor_records.c - the supervisor's own records: how the cell began and ended, and what was
 * done to it. */
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/hash.h"
#include "proc/supervisor/supervisor.h"

#define GRANT_MAX (48 * 1024)
#define WORD_MAX MEMBERS_STR_MAX        /* for a word of the command */
#define WORDS_MAX (12 * 1024)           /* for a whole list */
#define BUILD_ID_MAX 64

/* Writes as many texts as fit; if some are left out, their total number too.  UP_TO: cut each text
 * before that character; '\0': do not. */
static void
put_words(struct members *m, const char *key, char *const *words, char up_to)
{
	OWN(buf_free) struct buf list;
	char count[MEMBERS_KEY_MAX];
	size_t n = 0, len;

	buf_init(&list, GRANT_MAX);
	buf_put(&list, "[", 1);
	for (; words != NULL && words[n] != NULL && list.len < WORDS_MAX; n++) {
		len = up_to == '\0' ? strlen(words[n]) : (size_t)(strchrnul(words[n], up_to) - words[n]);
		buf_put(&list, n == 0 ? "\"" : ",\"", n == 0 ? 1 : 2);
		members_escape(&list, words[n], len, WORD_MAX);
		buf_put(&list, "\"", 1);
	}
	buf_put(&list, "]", 1);
	members_raw(m, key, list.data, list.len);
	if (words != NULL && words[n] != NULL) {
		snprintf(count, sizeof(count), "n_%s", key);
		members_u64(m, count, strv_len(words));
	}
}

static void
put_grants(struct members *m, const struct cell_spec *spec)
{
	static const char *const ways[] = { "ro", "rw", "overlay", "volume" };
	OWN(buf_free) struct buf list;
	size_t n;

	buf_init(&list, GRANT_MAX);
	buf_put(&list, "[", 1);
	for (n = 0; n < spec->n_grants && list.len < WORDS_MAX; n++) {
		OWN(members_free) struct members grant;

		members_init(&grant, GRANT_MAX);
		members_str(&grant, "access", spec->grants[n].cache != NULL ? "cache" : ways[spec->grants[n].access]);
		if (spec->grants[n].cache != NULL)
			members_str(&grant, "cache", spec->grants[n].cache);
		members_str(&grant, "cell", spec->grants[n].cell);
		members_str(&grant, "host", spec->grants[n].host);
		if (n > 0)
			buf_put(&list, ",", 1);
		members_put_object(&grant, &list);
	}
	buf_put(&list, "]", 1);
	members_raw(m, "grants", list.data, list.len);
	if (n < spec->n_grants)
		members_u64(m, "n_grants", spec->n_grants);
}

/* The limits in force. */
static void
put_limits(struct members *m, const struct supervisor *sv)
{
	const struct cell_limits *l = &sv->spec.limits;
	const unsigned unlimited = sv->walls == NULL ? 0 : sv->boundary->facts(sv->walls).unlimited;
	OWN(members_free) struct members limits;
	OWN(buf_free) struct buf text;

	members_init(&limits, GRANT_MAX);
	buf_init(&text, GRANT_MAX);
	if ((unlimited & CELL_LIMIT_CPUS) == 0)
		members_u64(&limits, "cpus_milli", l->cpus_milli);
	members_u64(&limits, "disk", l->disk);
	if ((unlimited & CELL_LIMIT_IO) == 0)
		members_u64(&limits, "io", l->io);
	if ((unlimited & CELL_LIMIT_MEMORY) == 0)
		members_u64(&limits, "memory", l->memory);
	members_u64(&limits, "pids", l->pids);
	members_u64(&limits, "time_ms", l->time_ms);
	if (l->ttl_ms > 0)
		members_u64(&limits, "ttl_ms", l->ttl_ms);
	if (l->idle_pause_ms > 0)
		members_u64(&limits, "idle_pause_ms", l->idle_pause_ms);
	members_put_object(&limits, &text);
	members_raw(m, "limits", text.data, text.len);
}

static void
put_states(struct members *m, const struct cell_spec *spec)
{
	OWN(buf_free) struct buf list = {0};

	if (spec->n_states == 0)
		return;
	buf_init(&list, GRANT_MAX);
	for (size_t i = 0; i < spec->n_states; i++) {
		const struct cell_state *s = &spec->states[i];
		OWN(members_free) struct members state;

		members_init(&state, GRANT_MAX);
		members_str(&state, "branch", s->branch);
		members_str(&state, "cell", spec->grants[s->grant].cell);
		members_str(&state, "commit", s->commit);
		members_str(&state, "guards", s->guards);
		members_str(&state, "name", s->name);
		buf_put(&list, i == 0 ? "[" : ",", 1);
		members_put_object(&state, &list);
	}
	buf_put(&list, "]", 1);
	members_raw(m, "states", list.data, list.len);
}

static void
put_ports(struct members *m, const struct cell_spec *spec)
{
	OWN(buf_free) struct buf list = {0};
	char text[32];

	if (spec->n_ports == 0)
		return;
	buf_init(&list, GRANT_MAX);
	for (size_t i = 0; i < spec->n_ports; i++) {
		snprintf(text, sizeof(text), "%s\"%u:%u\"", i == 0 ? "[" : ",", spec->ports[i].cell,
		         spec->ports[i].host);
		buf_put(&list, text, strlen(text));
	}
	buf_put(&list, "]", 1);
	members_raw(m, "ports", list.data, list.len);
}

/* The policy as it is stored beside the timeline, once the cell has made a request. */
static void
put_policy(struct members *m, struct supervisor *sv)
{
	if (!sv->spec.has_policy)
		return;
	members_str(m, "policy", supervisor_policy_hash(sv));
	if (sv->spec.audit_strict)
		members_str(m, "audit", "strict");
	if (sv->spec.learn)
		members_bool(m, "learn", true);
}

/* What the virtual machine boots, and what runs it. */
static void
put_vm(struct members *m, const struct supervisor *sv)
{
	const struct cell_spec *spec = &sv->spec;
	OWN(members_free) struct members vm;
	OWN(buf_free) struct buf text = {0};
	char kernel[HASH_NAME + 1], initramfs[HASH_NAME + 1], disk[HASH_NAME + 1];

	members_init(&vm, GRANT_MAX);
	if (spec->vm_kernel == NULL || sv->boundary->monitor == NULL)
		return;
	hash_name(spec->vm_kernel_hash, kernel);
	hash_name(spec->vm_initramfs_hash, initramfs);
	hash_name(spec->vm_disk_hash, disk);
	buf_init(&text, GRANT_MAX);
	if (spec->vm_disk != NULL)
		members_str(&vm, "disk_hash", disk);
	members_bool(&vm, "emulated", spec->vm_emulated);
	members_str(&vm, "initramfs_hash", initramfs);
	members_str(&vm, "kernel", strrchr(spec->vm_kernel, '/') + 1);
	members_str(&vm, "kernel_hash", kernel);
	members_str(&vm, "monitor", sv->boundary->monitor(spec));
	members_put_object(&vm, &text);
	members_raw(m, "vm", text.data, text.len);
}

static void
put_image(struct members *m, const struct cell_image *spec)
{
	OWN(members_free) struct members image;
	OWN(buf_free) struct buf text = BUF(GRANT_MAX);
	char digest[HASH_NAME + 1];

	members_init(&image, GRANT_MAX);
	if (spec->name == NULL)
		return;
	hash_name(spec->digest, digest);
	members_str(&image, "digest", digest);
	members_str(&image, "name", spec->name);
	members_put_object(&image, &text);
	members_raw(m, "image", text.data, text.len);
}

/* Finds the build id, which the linker computes from the whole program. */
static int
find_build_id(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *ret_hex = arg;

	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;

		while (p->p_type == PT_NOTE && (size_t)(end - at) > sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
			const char *id = at + sizeof(*note) + ((note->n_namesz + 3) & ~3u);

			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
			    memcmp(at + sizeof(*note), "GNU", 4) == 0 && note->n_descsz <= BUILD_ID_MAX / 2) {
				codec_hex((const unsigned char *)id, note->n_descsz, ret_hex);
				return 1;
			}
			at = id + ((note->n_descsz + 3) & ~3u);
		}
	}
	/* The program itself comes first, and is the only one wanted. */
	return 1;
}

static void
put_grant(struct supervisor *sv, struct buf *ret_grant)
{
	const struct cell_spec *spec = &sv->spec;
	OWN(members_free) struct members m;

	members_init(&m, GRANT_MAX);
	put_words(&m, "argv", spec->argv, '\0');
	put_words(&m, "env", spec->env, '=');
	put_words(&m, "secrets", spec->placeholders, '\0');
	put_grants(&m, spec);
	put_states(&m, spec);
	put_limits(&m, sv);
	put_ports(&m, spec);
	put_policy(&m, sv);
	put_words(&m, "setups", spec->setups, '\0');
	members_str(&m, "principal", spec->principal);
	members_str(&m, "chain", spec->chain);
	members_str(&m, "restart_of", spec->restart_of);
	members_str(&m, "fork_of", spec->fork_of.id);
	if (spec->fork_of.id[0] != '\0') {
		members_u64(&m, "fork_at", spec->fork_of.at);
		members_str(&m, "fork_head", spec->fork_of.head);
	}
	members_str(&m, "cwd", spec->cwd);
	members_str(&m, "name", spec->name);
	members_str(&m, "rootfs", spec->bare ? "none" : spec->rootfs);
	put_image(&m, &spec->image);
	members_str(&m, "boundary", sv->boundary->name);
	members_str(&m, "weaker", spec->weaker);
	members_str(&m, "runtime", spec->runtime);
	put_vm(&m, sv);
	members_str(&m, "profile", spec->profile == CELL_PROFILE_NESTED ? "nested" : "default");
	members_bool(&m, "root", spec->root);
	members_put_object(&m, ret_grant);
}

/* The operator's timeline must mention the cell before anything about it is recorded.  A record
 * that it does not mention would look forged. */
static int
tell_operator(struct supervisor *sv, const char *grant, struct err *err)
{
	struct timeline *t = &sv->timeline;
	int r = t->started || t->operator.dir <= 0 ? 0 :
	        operator_cell_started(&t->operator, sv->spec.id, t->key.public, grant, err);

	t->started = t->started || r == 0;
	return r;
}

void
supervisor_grant_hash(struct supervisor *sv, char ret_name[HASH_NAME + 1])
{
	OWN(buf_free) struct buf grant;
	unsigned char hash[HASH_LEN];

	buf_init(&grant, GRANT_MAX);
	put_grant(sv, &grant);
	hash_of(grant.data, grant.len, hash);
	hash_name(hash, ret_name);
}

int
supervisor_record_boot(struct supervisor *sv, struct err *err)
{
	char build[BUILD_ID_MAX + 1] = "", name[HASH_NAME + 1];
	OWN(members_free) struct members m;
	OWN(buf_free) struct buf grant;
	unsigned char hash[HASH_LEN];
	int r;

	members_init(&m, AUDIT_EVENT_MAX);
	buf_init(&grant, GRANT_MAX);
	put_grant(sv, &grant);
	hash_of(grant.data, grant.len, hash);
	hash_name(hash, name);
	r = tell_operator(sv, name, err);
	if (r < 0)
		return r;
	(void)dl_iterate_phdr(find_build_id, build);
	members_str(&m, "type", "cell.boot");
	members_raw(&m, "grant", grant.data, grant.len);
	members_str(&m, "hash", name);
	members_str(&m, "build", build);
	members_u64(&m, "uid", getuid());
	/* All others follow it: without it there is no timeline. */
	r = supervisor_put_members(sv, &m);
	if (r == 0)
		r = supervisor_timeline_write(sv);
	return r < 0 ? err_set(err, -r, "its first record cannot be written: %s", strerrordesc_np(-r)) : 0;
}

void
supervisor_put_end(struct supervisor *sv, int status, bool is_changed)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "cell.end");
	members_u64(&m, "status", (uint64_t)status);
	members_str(&m, "cause", sv->cause);
	/* For a cell that changed nothing, there is no other trace. */
	if (cell_spec_has_overlay(&sv->spec))
		members_bool(&m, "changed", is_changed);
	supervisor_resources_put_totals(sv, &m);
	supervisor_witness_put_totals(sv, &m);
	(void)supervisor_put_members(sv, &m);
}

void
supervisor_record_setup(struct supervisor *sv, const char *path, int status)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "setup.ran");
	members_str(&m, "path", path);
	members_u64(&m, "status", (uint64_t)status);
	supervisor_record_members(sv, &m);
}

void
supervisor_record_exec(struct supervisor *sv, const char *by, char *const *argv)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "cell");
	members_str(&m, "verdict", "allow");
	members_str(&m, "did", "exec");
	members_str(&m, "by", by);
	put_words(&m, "argv", argv, '\0');
	supervisor_record_members(sv, &m);
}
