/* cell_warm.c - see cell_warm.h. */
#include "cell/cell_warm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "canon/hash.h"
#include "cell/cell_dirs.h"
#include "ipc/warm_channel.h"

static void
add_text(struct hash *h, const char *text)
{
	hash_add(h, text, strlen(text) + 1);
}

bool
cell_warm_shape(const struct cell_spec *spec, char ret_shape[CELL_SHAPE_SIZE])
{
	const uint64_t numbers[] = { spec->limits.memory, spec->limits.cpus_milli, spec->limits.asked & CELL_LIMIT_CPUS,
	                             spec->vm_emulated, spec->vm_tap, spec->has_policy };
	unsigned char hash[HASH_LEN];
	char hex[HASH_HEX + 1];
	struct hash h;

	/* The monitor's user is chosen already, and so is its root. */
	if (spec->vm_kernel == NULL || spec->vm_boots || spec->root || spec->vm_disk != NULL)
		return false;
	hash_begin(&h);
	add_text(&h, spec->boundary);
	add_text(&h, spec->vm_kernel);
	add_text(&h, spec->vm_initramfs);
	add_text(&h, spec->vm_monitor);
	hash_add(&h, numbers, sizeof(numbers));
	hash_end(&h, hash);
	codec_hex(hash, HASH_LEN, hex);
	memcpy(ret_shape, hex, CELL_SHAPE_SIZE - 1);
	ret_shape[CELL_SHAPE_SIZE - 1] = '\0';
	return true;
}

int
cell_warm_folder(bool make, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	int fd;

	if (runtime < 0)
		return runtime;
	if (make && mkdirat(runtime, WARM_FOLDER, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder of waiting virtual machines");
	fd = openat(runtime, WARM_FOLDER, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "cannot open the folder of waiting virtual machines") : fd;
}

static bool
parse(const char *name, struct cell_warm *ret_warm)
{
	int pid, end = 0;

	if (strlen(name) >= sizeof(ret_warm->file) ||
	    sscanf(name, "%16[0-9a-f].%12[0-9a-f].%d%n", ret_warm->shape, ret_warm->label, &pid, &end) != 3 ||
	    name[end] != '\0' || pid <= 0)
		return false;
	snprintf(ret_warm->file, sizeof(ret_warm->file), "%s", name);
	ret_warm->pid = pid;
	return true;
}

size_t
cell_warm_list(int folder, struct cell_warm ret_list[CELL_WARM_MAX])
{
	OWN(closedirp) DIR *dir = tree_list(folder);
	struct dirent *e;
	size_t n = 0;

	while (dir != NULL && n < CELL_WARM_MAX && (e = readdir(dir)) != NULL) {
		if (!parse(e->d_name, &ret_list[n]))
			continue;
		/* Its supervisor was killed. */
		if (kill(ret_list[n].pid, 0) < 0 && errno == ESRCH)
			(void)unlinkat(folder, e->d_name, 0);
		else
			n++;
	}
	return n;
}

static struct sockaddr_un
address_of(int folder, const struct cell_warm *warm)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", folder, warm->file);
	return at;
}

int
cell_warm_connect(int folder, const struct cell_warm *warm)
{
	const struct sockaddr_un at = address_of(folder, warm);
	OWN(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || fcntl(fd, F_SETFL, 0) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int
cell_warm_listen(int folder, const char *shape, const char *label, struct cell_warm *ret_warm, struct err *err)
{
	OWN(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un at;

	*ret_warm = (struct cell_warm){ .pid = getpid() };
	memcpy(ret_warm->shape, shape, sizeof(ret_warm->shape));
	snprintf(ret_warm->label, sizeof(ret_warm->label), "%s", label);
	snprintf(ret_warm->file, sizeof(ret_warm->file), "%s.%s.%d", ret_warm->shape, ret_warm->label, (int)getpid());
	at = address_of(folder, ret_warm);
	(void)unlinkat(folder, ret_warm->file, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 1) < 0)
		return err_errno(err, "cannot listen for a cell");
	return TAKE_FD(fd);
}
