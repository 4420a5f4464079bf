/* image_unpack.c - has cloister-unpack turn layers into folders. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/progress.h"
#include "base/spawn.h"
#include "proc/image/image_proc.h"

#define LINE_MAX_BYTES 4096
#define FOLDER_FD 3                     /* cloister-unpack expects it there */

/* Its last line: 0, or the error that it reports.  What it prints is a stranger's as much as the layer. */
static int
take_verdict(const char *line, struct err *err)
{
	unsigned long long entries, size, left_out;

	if (strncmp(line, "error ", 6) == 0)
		return err_set(err, EBADMSG, "%s", line + 6);
	if (sscanf(line, "done %llu %llu %llu", &entries, &size, &left_out) != 3)
		return err_set(err, EPROTO, "its unpacker ended without a result");
	if (left_out > 0)
		fprintf(stderr, "cloister: %llu device%s or socket%s of a layer %s left out\n", left_out,
		        left_out == 1 ? "" : "s", left_out == 1 ? "" : "s", left_out == 1 ? "was" : "were");
	return 0;
}

/* Lines of digits are progress; the last line is the verdict. */
static int
follow(int fd, uint64_t total, char ret_last[LINE_MAX_BYTES], struct err *err)
{
	OWN(fclosep) FILE *in = fdopen(fd, "r");
	char line[LINE_MAX_BYTES];

	ret_last[0] = '\0';
	if (in == NULL) {
		close(fd);
		return err_errno(err, "cannot read what cloister-unpack reports");
	}
	while (fgets(line, sizeof(line), in) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] >= '0' && line[0] <= '9')
			progress_show(strtoull(line, NULL, 10), total);
		else
			memcpy(ret_last, line, sizeof(line));
	}
	return 0;
}

int
unpack_into(int fd, int folder, const char *diff_id, bool keeps_owners, uint64_t total, struct err *err)
{
	char program[] = "cloister-unpack", option[] = "--diff-id", any[] = "any", owners[] = "--owners",
	     keep[] = "keep", mine[] = "mine", last[LINE_MAX_BYTES], wanted[HASH_NAME + 1] = "";
	char *argv[] = { program, option, any, owners, keeps_owners ? keep : mine, NULL };
	int ends[2], r, status;
	pid_t pid;

	if (diff_id != NULL) {
		memcpy(wanted, diff_id, sizeof(wanted));
		argv[2] = wanted;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot start cloister-unpack");
	pid = spawn_start(&(struct spawn){ .argv = argv, .fds = (struct spawn_fd[]){ { fd, STDIN_FILENO },
		{ ends[1], STDOUT_FILENO }, { folder, FOLDER_FD } }, .n_fds = 3, .flags = SPAWN_DIES | SPAWN_ONLY }, NULL,
		err);
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return (int)pid;
	}
	r = follow(ends[0], total, last, err);
	status = spawn_await(pid, err);
	if (status < 0 || r < 0)
		return status < 0 ? status : r;
	if (status > SPAWN_KILLED)
		return err_set(err, EBADMSG, "its unpacker was killed by signal %d: the layer may be an attack",
		               status - SPAWN_KILLED);
	r = take_verdict(last, err);
	return r == 0 && status != 0 ? err_set(err, EPROTO, "its unpacker failed") : r;
}

/* A layer that cannot be read: whether that is because its blob is not what it was when it was stored. */
static int
explain(int fd, const char *digest, int r, struct err *err)
{
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];
	uint64_t size;

	if (lseek(fd, 0, SEEK_SET) < 0 || hash_fd(fd, IMAGE_BLOB_MAX, hash, &size, NULL) < 0)
		return r;
	hash_name(hash, name);
	return strcmp(name, digest) == 0 ? r :
	       err_set(err, EBADMSG, "the blob %s has been changed: remove its image and get it again", digest);
}

static int
unpack_one(struct store *s, const struct image_descriptor *blob, const char *diff_id, struct err *err)
{
	struct store_layer layer;
	OWN(closep) int fd = -1;
	uint64_t size;
	int r;

	fd = store_open_blob(s, blob->digest, &size, err);
	if (fd < 0)
		return fd;
	r = store_layer_begin(s, &layer, err);
	if (r < 0)
		return r;
	r = unpack_into(fd, layer.fs, diff_id, geteuid() == 0, size, err);
	if (r == 0)
		return store_layer_finish(s, &layer, diff_id, err);
	store_layer_abort(s, &layer);
	return r == -EBADMSG ? explain(fd, blob->digest, r, err) : r;
}

int
unpack_image(struct store *s, const struct store_image *image, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < image->config.n_diff_ids; i++) {
		const char *diff_id = image->config.diff_ids[i];

		if (store_has_layer(s, diff_id))
			continue;
		progress_begin("unpacking");
		r = unpack_one(s, &image->manifest.layers[i], diff_id, err);
		if (r < 0)
			r = err_wrap(err, "layer %zu of the image", i + 1);
	}
	progress_end();
	return r;
}
