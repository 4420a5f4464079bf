/* dk_describe.c - the container of a cell in the words of the Engine API. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/data.h"
#include "base/json.h"
#include "base/own.h"
#include "boundary/docker/dk.h"
#include "confine/filter.h"
#include "ipc/init_channel.h"

/* With a group, an engine adds no other groups of the image's. */
#define USER "%u:%u"

/* Init's own arguments: see proc/init/init_engine.c. */
static void
put_command(struct json *w, const struct cell_spec *spec)
{
	static const char *const init[] = { DK_INIT, NULL };
	char filter[2] = { (char)('0' + FILTER_DEFAULT), '\0' }, over[24], most[24], user[32];
	const char flags[] = { INIT_BY_STREAM, INIT_BY_ENGINE, '\0' };
	const char *const words[] = { filter, over, flags, DK_PORT, most, user, NULL };

	snprintf(over, sizeof(over), "%llu",
	         (unsigned long long)cell_limits_over_ms(spec->limits.time_ms, spec->limits.ttl_ms));
	/* The container's group should apply first, because it counts how often it did. */
	snprintf(most, sizeof(most), "%llu", (unsigned long long)ns_most_processes(spec) + 64);
	snprintf(user, sizeof(user), USER, cell_spec_uid(spec), cell_spec_gid(spec));
	json_strv(w, "Entrypoint", init);
	json_open(w, "Cmd", '[');
	for (size_t i = 0; words[i] != NULL; i++)
		json_str(w, NULL, words[i]);
	for (size_t i = 0; i < spec->n_grants; i++)
		if (spec->grants[i].access != CELL_READ)
			json_str(w, NULL, spec->grants[i].cell);
	json_close(w, ']');
}

static void
put_bind(struct json *w, const char *from, const char *to)
{
	json_open(w, NULL, '{');
	json_str(w, "Type", "bind");
	json_str(w, "Source", from);
	json_str(w, "Target", to);
	json_bool(w, "ReadOnly", true);
	json_close(w, '}');
}

static void
put_host(struct json *w, const struct cell_spec *spec, const char *init, const char *port, bool apart)
{
	static const char *const all[] = { "ALL", NULL }, *const options[] = { "no-new-privileges", NULL };
	const struct cell_limits *limits = &spec->limits;

	json_open(w, "HostConfig", '{');
	json_str(w, "NetworkMode", "none");
	json_bool(w, "AutoRemove", true);
	json_bool(w, "ReadonlyRootfs", true);
	json_strv(w, "CapDrop", all);
	json_strv(w, "SecurityOpt", options);
	json_str(w, "IpcMode", "private");
	json_str(w, "CgroupnsMode", "private");
	json_u64(w, "Memory", limits->memory);
	json_u64(w, "MemorySwap", limits->memory);      /* both together: none beyond it */
	json_u64(w, "NanoCpus", limits->cpus_milli * 1000000);
	json_u64(w, "PidsLimit", ns_most_processes(spec));
	/* A rootless engine's user is the agent. */
	if (geteuid() != 0)
		json_raw(w, "UsernsMode", "\"keep-id:uid=%u,gid=%u\"", cell_spec_uid(spec), cell_spec_gid(spec));
	else if (apart)
		json_raw(w, "UsernsMode", "\"auto:size=%u\"", NS_RANGE_SIZE);
	json_open(w, "LogConfig", '{');
	json_str(w, "Type", "none");
	json_close(w, '}');
	json_open(w, "Mounts", '[');
	put_bind(w, init, DK_INIT);
	put_bind(w, port, DK_PORT);
	json_close(w, ']');
	json_close(w, '}');
}

char *
dk_describe(const struct cell_spec *spec, const char *init, const char *port, bool apart)
{
	static const char *const none[] = { "NONE", NULL };
	OWN(freep) char *text = NULL, *folder = data_runtime_path(NULL);
	char image[HASH_NAME + 1];
	size_t len = 0;
	struct json w = { .out = open_memstream(&text, &len) };

	if (w.out == NULL || folder == NULL) {
		if (w.out != NULL)
			fclose(w.out);
		return NULL;
	}
	json_open(&w, NULL, '{');
	hash_name(spec->image.digest, image);
	json_str(&w, "Image", image);
	json_str(&w, "Hostname", spec->hostname);
	json_raw(&w, "User", "\"" USER "\"", cell_spec_uid(spec), cell_spec_gid(spec));
	json_str(&w, "WorkingDir", "/");
	put_command(&w, spec);
	json_bool(&w, "NetworkDisabled", true);
	json_open(&w, "Labels", '{');
	json_str(&w, DK_LABEL, spec->id);
	json_str(&w, DK_FOLDER, folder);
	json_close(&w, '}');
	json_open(&w, "Healthcheck", '{');
	json_strv(&w, "Test", none);
	json_close(&w, '}');
	put_host(&w, spec, init, port, apart);
	json_close(&w, '}');
	return fclose(w.out) == 0 ? TAKE(text) : NULL;
}
