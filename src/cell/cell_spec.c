/* cell_spec.c - see cell_spec.h. */
#include "cell/cell_spec.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/own.h"
#include "base/utf8.h"

uint64_t
cell_limits_over_ms(uint64_t time_ms, uint64_t ttl_ms)
{
	uint64_t ms = ttl_ms > 0 && ttl_ms + CELL_TTL_GRACE_MS < time_ms ? ttl_ms + CELL_TTL_GRACE_MS : time_ms;

	return ms + CELL_OVER_MS;
}

/* One file per 4 KiB, as file systems are usually made. */
uint64_t
cell_limits_inodes(uint64_t disk)
{
	return disk / 4096 + 256;
}

void
cell_limits_default(struct cell_limits *ret_limits)
{
	cpu_set_t cpus;
	int n = 1;

	if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0)
		n = CPU_COUNT(&cpus);
	*ret_limits = (struct cell_limits){
		.memory = 4ULL << 30,
		.disk = 2ULL << 30,
		.io = 1ULL << 30,
		.cpus_milli = 1000ULL * (uint64_t)(n < 4 ? n : 4),
		.pids = 1024,
		.inodes = 1 << 19,
		.time_ms = 24ULL * 3600 * 1000,
	};
}

void
cell_spec_free_files(struct cell_spec *spec)
{
	while (spec->n_files > 0) {
		spec->n_files--;
		free(spec->files[spec->n_files].path);
		free(spec->files[spec->n_files].text);
	}
}

void
cell_spec_free(struct cell_spec *spec)
{
	free(spec->name);
	free(spec->engine);
	free(spec->hostname);
	free(spec->cwd);
	free(spec->rootfs);
	free(spec->image.name);
	strv_free(spec->image.layers);
	strv_free(spec->argv);
	strv_free(spec->env);
	strv_free(spec->egress_env);
	strv_free(spec->placeholders);
	strv_free(spec->secrets);
	strv_free(spec->setups);
	strv_free(spec->starts);
	strv_free(spec->sources);
	free(spec->principal);
	free(spec->chain);
	free(spec->weaker);
	free(spec->vm_kernel);
	free(spec->vm_initramfs);
	free(spec->vm_disk);
	free(spec->runtime);
	strv_free(spec->bundle.layers);
	strv_free(spec->bundle.scratches);
	cell_spec_free_files(spec);
	free(spec->known_hosts);
	strv_free(spec->again);
	free(spec->again_in);
	for (size_t i = 0; i < spec->n_states; i++) {
		free(spec->states[i].name);
		free(spec->states[i].branch);
		free(spec->states[i].commit);
		free(spec->states[i].guards);
	}
	for (size_t i = 0; i < spec->n_grants; i++) {
		free(spec->grants[i].host);
		free(spec->grants[i].cell);
		free(spec->grants[i].out);
		free(spec->grants[i].cache);
	}
	free(spec->grants);
	*spec = (struct cell_spec){0};
}

enum cell_programs
cell_spec_programs(const struct cell_spec *spec)
{
	return spec->image.layers != NULL ? CELL_PROGRAMS_IMAGE : spec->bare ? CELL_PROGRAMS_NONE :
	       spec->rootfs[0] != '\0' ? CELL_PROGRAMS_FOLDER : CELL_PROGRAMS_HOST;
}

/* Whether the agent is the image's user: in a build, and in a container of an engine, whose files keep their owners. */
static bool
is_images(const struct cell_spec *spec)
{
	return spec->image.build || (spec->engine != NULL && spec->image.uid != 0);
}

uint32_t
cell_spec_uid(const struct cell_spec *spec)
{
	return spec->bundle.layers != NULL ? spec->bundle.uid : is_images(spec) ? spec->image.uid : spec->root ? 0 : CELL_AGENT_ID;
}

uint32_t
cell_spec_gid(const struct cell_spec *spec)
{
	return spec->bundle.layers != NULL ? spec->bundle.gid : is_images(spec) ? spec->image.gid : spec->root ? 0 : CELL_AGENT_ID;
}

bool
cell_spec_has_overlay(const struct cell_spec *spec)
{
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].access == CELL_OVERLAY)
			return true;
	return false;
}

bool
cell_spec_has_volume(const struct cell_spec *spec)
{
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].volume)
			return true;
	return false;
}

bool
cell_spec_writes_state(const struct cell_spec *spec)
{
	for (size_t i = 0; i < spec->n_states; i++)
		if (spec->states[i].branch[0] != '\0')
			return true;
	return false;
}

bool
cell_spec_has_fd(const struct cell_spec *spec, int fd)
{
	const bool has[CELL_FDS_END] = {
		[CELL_SPEC_FD] = true,
		[CELL_STARTED_FD] = spec->detached || spec->held,
		[CELL_POLICY_FD] = spec->has_policy,
		[CELL_POLICY_TEXT_FD] = spec->has_policy,
		[CELL_COUNTS_FD] = spec->has_policy,
		[CELL_AUTHORITIES_FD] = spec->has_policy && spec->has_authorities,
		[CELL_SECRETS_FD] = spec->has_policy && spec->has_secrets,
		[CELL_KEEPER_FD] = spec->has_policy && spec->keeper != 0,
		[CELL_IMAGE_FD] = spec->image.layers != NULL,
		[CELL_LAYER_FD] = spec->image.build,
		[CELL_VOLUMES_FD] = cell_spec_has_volume(spec),
		[CELL_SAVER_FD] = spec->n_states > 0,
		[CELL_POINT_MEMORY_FD] = spec->fork_of.id[0] != '\0',
		[CELL_POINT_STATE_FD] = spec->fork_of.id[0] != '\0',
	};

	return fd >= 0 && fd < CELL_FDS_END && has[fd];
}

bool
cell_spec_has_state(const struct cell_spec *spec)
{
	return cell_spec_has_overlay(spec) || spec->detached || spec->claim || spec->keep;
}

bool
cell_principal_ok(const char *text)
{
	size_t len = strlen(text), n;
	uint32_t code;

	if (len > CELL_PRINCIPAL_MAX)
		return false;
	for (size_t at = 0; at < len; at += n) {
		n = utf8_next(text + at, len - at, &code);
		if (n == 0 || utf8_is_control(code))
			return false;
	}
	return true;
}

bool
cell_chain_ok(const char *text)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char inner[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n;

	if (strlen(text) > CELL_CHAIN_MAX)
		return false;
	for (int depth = 0; *text != '\0'; depth++) {
		n = strspn(text, inner);
		if (n == 0 || n > 63 || strchr(letters, text[0]) == NULL ||
		    depth == CELL_CHAIN_DEPTH_MAX || (text[n] == '/' ? text[n + 1] == '\0' : text[n] != '\0'))
			return false;
		text += text[n] == '/' ? n + 1 : n;
	}
	return true;
}

bool
cell_file_ok(const char *path)
{
	size_t n;

	do {
		n = strcspn(path, "/");
		if (n == 0 || (n == 1 && path[0] == '.') || (n == 2 && path[0] == '.' && path[1] == '.'))
			return false;
		path += n;
	} while (*path++ == '/');
	return true;
}

int
cell_make_id(char ret_id[CELL_ID_LEN + 1], struct err *err)
{
	/* 32 characters that are not easily confused. */
	static const char letters[] = "abcdefghijkmnpqrstuvwxyz23456789";
	unsigned char random[CELL_ID_LEN];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	for (size_t i = 0; i < CELL_ID_LEN; i++)
		ret_id[i] = letters[random[i] % 32];
	/* An id that begins with a letter is never mistaken for a number. */
	ret_id[0] = letters[random[0] % 24];
	ret_id[CELL_ID_LEN] = '\0';
	return 0;
}

bool
cell_id_ok(const char *id)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	return strlen(id) == CELL_ID_LEN && strspn(id, ok) == CELL_ID_LEN;
}

bool
cell_name_ok(const char *name)
{
	static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	                         "0123456789-_";
	size_t len = strlen(name);

	return len > 0 && len <= CELL_NAME_MAX && name[0] != '-' && name[0] != '_' &&
	       strspn(name, ok) == len;
}
