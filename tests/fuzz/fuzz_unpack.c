/* fuzz_unpack.c - a layer, without the walls of its process: nothing is made outside its folder. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "fuzz.h"
#include "proc/unpack/unpack.h"

static const struct unpack_limits limits = { 1000, 1 << 20, 1 << 20, 1 << 16 };
static char place[] = "/tmp/cloister-fuzz-XXXXXX";
static int top = -1;

static void
remove_place(void)
{
	(void)tree_empty(top, NULL);
	(void)rmdir(place);
}

/* The folder of layers has a canary beside the layer. */
static void
prepare(void)
{
	if (top >= 0)
		return;
	assert(mkdtemp(place) != NULL);
	top = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(top >= 0 && mkdirat(top, "layer", 0700) == 0 && mkdirat(top, "canary", 0700) == 0);
	atexit(remove_place);
}

static void
check_canary(void)
{
	OWN(closep) int canary = openat(top, "canary", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *list = tree_list(top);
	const struct dirent *d;
	struct stat st;

	assert(canary >= 0 && tree_has_entries(canary) == 0);
	assert(fstat(canary, &st) == 0 && st.st_mode == (S_IFDIR | 0700));
	while ((d = readdir(list)) != NULL)
		assert(tree_is_dots(d->d_name) || strcmp(d->d_name, "layer") == 0 || strcmp(d->d_name, "canary") == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unpack_result result;
	struct err err = {0};
	int fd, layer, r;

	if (size > 64 * 1024)
		return 0;
	prepare();
	fd = memfd_create("layer", MFD_CLOEXEC);
	assert(fd >= 0 && write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0);
	layer = tree_open_dir_anyway(top, "layer");
	assert(layer >= 0);
	r = unpack_layer(fd, layer, NULL, false, &limits, NULL, &result, &err);
	assert(r == 0 || (r < 0 && err.text[0] != '\0'));
	check_canary();
	close(layer);
	layer = tree_open_dir_anyway(top, "layer");
	assert(layer >= 0 && tree_empty(layer, NULL) == 0);
	close(layer);
	close(fd);
	return 0;
}
