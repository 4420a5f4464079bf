/* supervisor_volumes.c - brings the changes of volumes to the disk when the cell has ended.
 *
 * They go to the folder of the volume that `cloister run` has made for this cell.  The next process that uses the volume
 * makes them part of it (volume/volume.h), if the file that says so is there: a supervisor that is killed leaves the volume
 * as it was. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"
#include "proc/supervisor/supervisor.h"
#include "volume/volume.h"

static int
open_one(struct supervisor *sv, size_t grant, struct err *err)
{
	const char *path = sv->spec.grants[grant].out;
	uid_t owner = sv->boundary->inner_root(sv->place.entry.slot);
	int fd = tree_open_resolved(path);

	if (fd < 0)
		return err_set(err, -fd, "cannot open '%s'", path);
	sv->volumes[grant] = fd;
	if (mkdirat(fd, VOLUME_NEW_FILES, 0700) < 0 ||
	    fchownat(fd, VOLUME_NEW_FILES, owner, owner == geteuid() ? (gid_t)-1 : owner, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot make room for changes in '%s'", path);
	return 0;
}

int
supervisor_volumes_open(struct supervisor *sv, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < sv->spec.n_grants; i++)
		if (sv->spec.grants[i].out != NULL)
			r = sv->boundary->keeps_changes() ? open_one(sv, i, err) :
			    err_set(err, ENOTSUP, "the size of a volume cannot be enforced: this kernel's tmpfs has no user attributes "
			            "(Linux 6.6 has): mount volumes with :ro, or use -v with a folder");
	return r;
}

static int
make_mark(int folder, const char *name, struct err *err)
{
	return create_file_at(folder, name, 0600, "", err);
}

static int
keep(struct supervisor *sv, size_t grant, struct err *err)
{
	const int folder = sv->volumes[grant];
	OWN(closep) int target = -1;
	uint32_t left_out = 0;
	int r;

	if (!sv->boundary->is_changed(sv->walls, grant))
		return 0;
	target = openat(folder, VOLUME_NEW_FILES, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (target < 0)
		return err_errno(err, "cannot open the folder for its changes");
	r = sv->boundary->collect(sv->walls, grant, target, &left_out, NULL, err);
	if (r == 0 && left_out > 0)
		supervisor_say(sv, "of the volume at '%s', %u file%s left out: devices, sockets, FIFOs, or too large for the disk",
		               sv->spec.grants[grant].cell, left_out, left_out == 1 ? " was" : "s were");
	return r == 0 ? make_mark(folder, VOLUME_NEW_DONE, err) : r;
}

void
supervisor_volumes_keep(struct supervisor *sv)
{
	for (size_t i = 0; i < sv->spec.n_grants; i++) {
		struct err err = {0};

		if (sv->volumes[i] <= 0)
			continue;
		if (keep(sv, i, &err) < 0) {
			(void)err_wrap(&err, "the volume at '%s' stays as it was", sv->spec.grants[i].cell);
			supervisor_complain(err.text);
		}
		(void)make_mark(sv->volumes[i], VOLUME_NEW_ENDED, NULL);
		close_fd(&sv->volumes[i]);
	}
}
