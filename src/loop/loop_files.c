/* loop_files.c - watches files and folders with inotify(7). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "loop/loop_parts.h"

static void
pass_on(struct loop_files *files, const struct inotify_event *event)
{
	for (struct loop_file *file = files->list; file != NULL; file = files->after) {
		files->after = file->next;
		if (file->watch == event->wd && (event->mask & IN_IGNORED) == 0)
			file->changed(file->arg, event->len > 0 ? event->name : "");
	}
}

static void
ready(void *arg, uint32_t events)
{
	struct loop_files *files = arg;
	_Alignas(struct inotify_event) char data[16384];
	const struct inotify_event *event;
	ssize_t n = read(files->source.fd, data, sizeof(data));

	(void)events;
	/* The rest waits for the next round: other sources have their turn, too. */
	for (ssize_t at = 0; at < n; at += (ssize_t)(sizeof(*event) + event->len)) {
		event = (const struct inotify_event *)(data + at);
		pass_on(files, event);
	}
}

static int
make(struct loop *loop, struct err *err)
{
	struct loop_files *files = calloc(1, sizeof(*files));
	int r;

	if (files == NULL)
		return err_set(err, ENOMEM, "out of memory");
	files->loop = loop;
	files->source = (struct loop_source){ .fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
	                                      .ready = ready, .arg = files };
	r = files->source.fd < 0 ?
	    err_errno(err, "cannot watch files (see fs.inotify.max_user_instances)") :
	    loop_watch(loop, &files->source, EPOLLIN, err);
	if (r < 0) {
		closep(&files->source.fd);
		free(files);
		return r;
	}
	*loop_files(loop) = files;
	return 0;
}

int
loop_watch_file(struct loop *loop, struct loop_file *file, int fd, unsigned events,
                struct err *err)
{
	uint32_t mask = ((events & LOOP_FILE_CREATED) != 0 ? IN_CREATE : 0) |
	                ((events & LOOP_FILE_MODIFIED) != 0 ? IN_MODIFY : 0) |
	                ((events & LOOP_FILE_WRITTEN) != 0 ? IN_CLOSE_WRITE : 0);
	int r = *loop_files(loop) == NULL ? make(loop, err) : 0;
	struct loop_files *files = *loop_files(loop);
	char path[48];

	if (r < 0)
		return r;
	loop_unwatch_file(loop, file);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* The same file has the same watch, however often it is watched. */
	r = inotify_add_watch(files->source.fd, path, mask | IN_MASK_ADD);
	if (r < 0)
		return err_errno(err, "cannot watch a file (see fs.inotify.max_user_watches)");
	file->watch = r;
	file->next = files->list;
	files->list = file;
	return 0;
}

void
loop_unwatch_file(struct loop *loop, struct loop_file *file)
{
	struct loop_files *files = *loop_files(loop);
	struct loop_file **at;
	bool is_shared = false;

	if (file->watch == 0)
		return;
	for (at = &files->list; *at != file; at = &(*at)->next)
		is_shared |= (*at)->watch == file->watch;
	*at = file->next;
	for (const struct loop_file *other = file->next; other != NULL; other = other->next)
		is_shared |= other->watch == file->watch;
	if (files->after == file)
		files->after = file->next;
	/* A removed file is not watched any more. */
	if (!is_shared)
		(void)inotify_rm_watch(files->source.fd, file->watch);
	file->watch = 0;
}
