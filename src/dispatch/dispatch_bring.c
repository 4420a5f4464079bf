/* dispatch_bring.c - brings what a dispatch needs, before its cell is started: blobs from S3, and a worker's image from its
 * registry.
 *
 * S3 or a registry may be slow or away for minutes.  So a process of its own does it, while this one keeps its claims and all other cells. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "registry/registry.h"
#include "target/target.h"

/* Uses the blob HASH ("": none); 0 goes on. */
typedef int use_blob(struct registry *reg, const char *hash, struct err *err);

static int
each_file(struct registry *reg, const json_t *capability, use_blob *use, struct err *err)
{
	OWN(freep) char *ref = str_format("%s@%s", dispatch_text(capability, "name"), dispatch_text(capability, "hash"));
	OWN(json_decrefp) json_t *content = NULL;
	struct registry_version version;
	json_t *file;
	size_t i;
	int r = ref == NULL ? err_set(err, ENOMEM, "out of memory") :
	        registry_resolve(reg, REGISTRY_CAPABILITY, ref, REGISTRY_ALL, &version, &content, err);

	json_array_foreach(json_object_get(content, "files"), i, file)
		r = r == 0 ? use(reg, dispatch_text(file, "hash"), err) : r;
	return r;
}

static int
each_blob(struct registry *reg, const json_t *resolved, use_blob *use, struct err *err)
{
	json_t *named;
	size_t i;
	int r = use(reg, dispatch_text(json_object_get(resolved, "input"), "hash"), err);

	r = r == 0 ? use(reg, dispatch_text(json_object_get(resolved, "policy"), "hash"), err) : r;
	json_array_foreach(json_object_get(resolved, "within"), i, named)
		r = r == 0 ? use(reg, dispatch_text(named, "hash"), err) : r;
	json_array_foreach(json_object_get(resolved, "capabilities"), i, named)
		r = r == 0 ? each_file(reg, named, use, err) : r;
	return r;
}

static int
look(struct registry *reg, const char *hash, struct err *err)
{
	(void)err;
	return *hash == '\0' || registry_has_blob(reg, hash) ? 0 : 1;
}

/* Where it was resolved, the image was there. */
static bool
may_lack_image(const struct dispatch *d)
{
	return target_pool(d->target) != NULL;
}

bool
dispatch_lacks(struct registry *reg, const struct dispatch *d)
{
	OWN(json_decrefp) json_t *resolved = NULL;

	if ((!registry_is_remote(reg) && !may_lack_image(d)) || dispatch_get_to_run(reg, d, &resolved, NULL) < 0)
		return false;
	return (registry_is_remote(reg) && each_blob(reg, resolved, look, NULL) == 1) ||
	       (may_lack_image(d) && dispatch_root_lacks(resolved));
}

static int
bring(struct registry *reg, const char *hash, struct err *err)
{
	OWN(closep) int fd = *hash == '\0' ? -1 : registry_open_blob(reg, hash, err);

	return *hash == '\0' || fd >= 0 ? 0 : fd;
}

int
dispatch_bring(struct registry *reg, const struct dispatch *d, struct err *err)
{
	OWN(json_decrefp) json_t *resolved = NULL;
	int r = dispatch_get_to_run(reg, d, &resolved, err);

	r = r == 0 ? each_blob(reg, resolved, bring, err) : r;
	return r == 0 && may_lack_image(d) ? dispatch_root_bring(resolved, err) : r;
}

int
dispatch_bring_start(const struct dispatch *d, int lock, struct loop *loop, struct child *child, int *ret_said,
                     struct err *err)
{
	return dispatch_spawn_for(child, loop, "bring", d->id, lock, ret_said, err);
}
