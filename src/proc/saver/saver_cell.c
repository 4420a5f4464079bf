/* saver_cell.c - takes what the supervisor says of the cell. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/saver/saver.h"

int
saver_take_cell(struct saver *s, struct ipc_message *m)
{
	char **const texts[] = { &s->name, &s->who, &s->behalf, &s->dispatch, &s->grant };
	uint32_t owner, has_range, has_userns, has_died;
	size_t at = 0;

	if (s->entry >= 0 || s->n == 0 || buf_get_u32(&m->body, &owner) < 0 || buf_get_u32(&m->body, &has_range) < 0 ||
	    buf_get_u32(&m->body, &has_userns) < 0 || buf_get_u32(&m->body, &has_died) < 0 || has_userns > 1 || has_died > 1 ||
	    m->n_fds != 1 + has_userns + has_died)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (buf_dup_str(&m->body, texts[i]) < 0)
			return -EBADMSG;
	s->owner = owner;
	s->collector.has_range = has_range != 0;
	s->entry = ipc_take_fd(m, at++);
	if (has_userns)
		s->collector.userns = ipc_take_fd(m, at++);
	if (has_died)
		s->died = ipc_take_fd(m, at++);
	return 0;
}

int
saver_take_upper(struct saver *s, struct ipc_message *m)
{
	uint32_t number;

	if (buf_get_u32(&m->body, &number) < 0 || number >= s->n || s->states[number].lock < 0 || m->n_fds != 1 ||
	    s->states[number].upper >= 0)
		return -EBADMSG;
	s->states[number].upper = ipc_take_fd(m, 0);
	return 0;
}

int
saver_make_folder(const struct saver *s, const char *name, struct err *err)
{
	OWN(closep) int fd = openat(s->entry, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && tree_empty(fd, err) < 0)
		return -err->code;
	if (fd < 0 && mkdirat(s->entry, name, 0700) < 0)
		return err_errno(err, "cannot make room for the changes of a state");
	if (fd < 0)
		fd = openat(s->entry, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || (s->owner != geteuid() && fchown(fd, s->owner, s->owner) < 0))
		return err_errno(err, "cannot make room for the changes of a state");
	return TAKE_FD(fd);
}
