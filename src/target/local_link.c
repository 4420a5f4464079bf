/* local_link.c - local cells in a loop: starts them, and notices what happens to them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_doc.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "ipc/lend_channel.h"
#include "loop/child.h"
#include "store/keyless.h"
#include "target/local_parts.h"

#define SAID_BYTES_MAX (1 << 20)
/* The descriptors of `cloister run`. */
#define DOC_FD 3
#define ENV_FD 4
#define DOC_PATH "/proc/self/fd/3"
#define ENV_PATH "/proc/self/fd/4"
/* Messages of `cloister run` begin so.  Nobody gave that option. */
#define SAYS "cloister: "
#define SAYS_DOC "--doc '" DOC_PATH "': "

struct target_place {
	struct loop *loop;
	struct loop_file state;         /* the state folder */
	struct target_link *links;
};

struct target_link {
	struct target_place *place;
	struct target_link *next;
	char cell[CELL_ID_LEN + 1];
	struct target_hooks hooks;
	struct child run;               /* `cloister run` */
	int said;                       /* a memory file that gets its messages */
	struct loop_source control;     /* a connection to the supervisor */
	struct loop_file entry;         /* the cell's state entry */
	bool appeared;
};

/* ---- a place ---- */

/* A new entry in the state folder. */
static void
entry_appeared(void *arg, const char *name)
{
	struct target_place *place = arg;
	size_t len = strcspn(name, ".");
	struct target_link *link = place->links;

	if (len != CELL_ID_LEN)
		return;
	while (link != NULL && strncmp(link->cell, name, CELL_ID_LEN) != 0)
		link = link->next;
	if (link != NULL && !link->appeared)
		link->hooks.news(link->hooks.arg);
}

int
local_open(struct loop *loop, struct target_place **ret_place, struct err *err)
{
	OWN(closep) int state = cell_state_open(true, err);
	OWN(freep) struct target_place *place = calloc(1, sizeof(*place));
	int r;

	if (state < 0)
		return state;
	if (place == NULL)
		return err_set(err, ENOMEM, "out of memory");
	place->loop = loop;
	place->state = (struct loop_file){ .changed = entry_appeared, .arg = place };
	r = loop_watch_file(loop, &place->state, state, LOOP_FILE_CREATED, err);
	if (r < 0)
		return r;
	*ret_place = TAKE(place);
	return 0;
}

void
local_close(struct target_place *place)
{
	if (place == NULL)
		return;
	loop_unwatch_file(place->loop, &place->state);
	free(place);
}

/* ---- a link ---- */

static void
entry_changed(void *arg, const char *name)
{
	struct target_link *link = arg;

	(void)name;
	link->hooks.news(link->hooks.arg);
}

static struct target_link *
new_link(struct target_place *place, const char *cell, const struct target_hooks *hooks)
{
	struct target_link *link = calloc(1, sizeof(*link));

	if (link == NULL)
		return NULL;
	*link = (struct target_link){ .place = place, .next = place->links, .hooks = *hooks,
	                              .entry = { .changed = entry_changed, .arg = link } };
	snprintf(link->cell, sizeof(link->cell), "%s", cell);
	place->links = link;
	return link;
}

int
local_attach(struct target_place *place, const char *cell, const struct target_hooks *hooks,
             struct target_link **link, struct err *err)
{
	OWN(closep) int entry = -1;

	if (*link == NULL)
		*link = new_link(place, cell, hooks);
	if (*link == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if ((*link)->appeared)
		return 1;
	entry = local_open_entry(cell);
	if (entry < 0)
		return 0;
	(*link)->appeared = true;
	/* Without the watch, all of it is read at the end. */
	(void)loop_watch_file(place->loop, &(*link)->entry, entry,
	                      LOOP_FILE_MODIFIED | LOOP_FILE_CREATED, NULL);
	return 1;
}

static void
drop_control(struct target_link *link)
{
	loop_unwatch(link->place->loop, &link->control);
	close_fd(&link->control.fd);
}

void
local_detach(struct target_link *link)
{
	struct target_link **at;

	if (link == NULL)
		return;
	for (at = &link->place->links; *at != link; at = &(*at)->next)
		;
	*at = link->next;
	child_drop(&link->run);
	close_fd(&link->said);
	drop_control(link);
	loop_unwatch_file(link->place->loop, &link->entry);
	free(link);
}

/* ---- the start ---- */

/* The last line, without the prefix. */
static void
read_said(int fd, char ret_said[TARGET_SAID_MAX])
{
	OWN(freep) char *text = NULL;
	char *line, *end;

	ret_said[0] = '\0';
	if (read_whole(fd, SAID_BYTES_MAX, &text, NULL, NULL) < 0)
		return;
	for (end = text + strlen(text); end > text && end[-1] == '\n'; end--)
		end[-1] = '\0';
	line = strrchr(text, '\n');
	line = line != NULL ? line + 1 : text;
	if (strncmp(line, SAYS, strlen(SAYS)) == 0)
		line += strlen(SAYS);
	if (strncmp(line, SAYS_DOC, strlen(SAYS_DOC)) == 0)
		line += strlen(SAYS_DOC);
	snprintf(ret_said, TARGET_SAID_MAX, "%s", line);
}

static void
run_ended(void *arg, bool exited, int status)
{
	struct target_link *link = arg;
	char said[TARGET_SAID_MAX];

	(void)status;
	read_said(link->said, said);
	close_fd(&link->said);
	/* A `cloister run` that was killed may have left a supervisor that is only just beginning. */
	link->hooks.started(link->hooks.arg, exited, said);
}

/* A memory file: nobody else may find it, since it may hold a token. */
static int
pack(const char *name, const void *data, size_t len, struct err *err)
{
	OWN(closep) int fd = memfd_create(name, MFD_CLOEXEC);
	int r = fd < 0 ? err_errno(err, "cannot hand over the cell's %s", name) :
	        write_all(fd, data, len, err);

	return r < 0 ? r : TAKE_FD(fd);
}

/* ENV, or this process's environment if it is NULL, with LEND_VARIABLE, whose memory the caller frees.  The caller frees the
 * list. */
static int
env_with_claim(char **env, const char *lent, char **ret_variable, char ***ret_env, struct err *err)
{
	char **from = env != NULL ? env : environ, **all = calloc(strv_len(from) + 2, sizeof(*all));
	size_t n = 0;

	*ret_variable = lent != NULL ? str_format(LEND_VARIABLE "=%s", lent) : NULL;
	if (all == NULL || (lent != NULL && *ret_variable == NULL)) {
		free(all);
		return err_set(err, ENOMEM, "out of memory");
	}
	for (size_t i = 0; from[i] != NULL; i++)
		if (strncmp(from[i], LEND_VARIABLE "=", sizeof(LEND_VARIABLE)) != 0)
			all[n++] = from[i];
	all[n] = *ret_variable;
	*ret_env = all;
	return 0;
}

int
local_start(struct target_link *link, const struct target_work *work, struct err *err)
{
	char *argv[] = { (char[]){ "cloister" }, (char[]){ "run" }, (char[]){ "-d" },
		(char[]){ "--keep" }, (char[]){ "--streams" }, (char[]){ "--warm" }, (char[]){ "--id" }, link->cell,
		(char[]){ "--doc" }, (char[]){ DOC_PATH }, NULL, NULL, NULL };
	char env_words[2][sizeof(ENV_PATH)] = { "--env-file", ENV_PATH };
	char **more = argv + 10;
	OWN(closep) int doc = -1, env = -1, said = -1;
	OWN(freep) char *text = NULL, *claim = NULL;
	OWN(freep) char **inherited = NULL, **environment = NULL;
	char path[PATH_MAX];
	size_t len;
	int r = cell_doc_write(work->doc, &text, &len, err);

	r = r == 0 ? exe_find_cloister(path, err) : r;
	/* Neither the supervisor nor anything that it starts has a use for it. */
	r = r == 0 ? keyless_env(&inherited, err) : r;
	r = r == 0 ? env_with_claim(inherited, work->lent, &claim, &environment, err) : r;
	r = r == 0 ? doc = pack("document", text, len, err) : r;
	r = r >= 0 && work->env_len > 0 ? env = pack("environment", work->env, work->env_len, err) : r;
	r = r >= 0 ? said = pack("messages", "", 0, err) : r;
	if (r < 0)
		return r;
	if (work->env_len > 0) {
		*more++ = env_words[0];
		*more++ = env_words[1];
	}
	link->run.ended = run_ended;
	link->run.arg = link;
	r = child_start(&link->run, link->place->loop, &(struct spawn){ .argv = argv, .path = path, .cwd = "/",
		.env = environment, .fds = (const struct spawn_fd[]){ { SPAWN_NULL, 0 }, { SPAWN_NULL, 1 }, { said, 2 },
		                                  { doc, DOC_FD }, { env, ENV_FD } }, .n_fds = 5,
		.flags = SPAWN_APART }, err);
	if (r == 0)
		link->said = TAKE_FD(said);
	return r;
}

/* ---- the end ---- */

static void
control_ready(void *arg, uint32_t events)
{
	struct target_link *link = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};

	(void)events;
	if (ipc_receive(link->control.fd, &message, NULL) == -EAGAIN)
		return;
	drop_control(link);
	/* Without a report, the supervisor may have no room for another client. */
	link->hooks.left(link->hooks.arg, message.type == CONTROL_ENDED);
}

int
local_follow(struct target_link *link, struct err *err)
{
	int r, fd = local_await(link->cell, err);

	if (fd < 0)
		return fd;
	link->control = (struct loop_source){ .fd = fd, .ready = control_ready, .arg = link };
	r = loop_watch(link->place->loop, &link->control, EPOLLIN, err);
	if (r < 0)
		drop_control(link);
	return r;
}
