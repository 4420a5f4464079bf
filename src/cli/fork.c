/* fork.c - `cloister fork`: starts copies of a running virtual machine, each a cell with an identity of its own. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/exe.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/io.h"
#include "cell/cell_control.h"
#include "cell/cell_steer.h"
#include "cli/cli.h"

#define FORKS_MAX 64                    /* by one command */

struct forks {
	const char *name;
	uint64_t count;
	char program[PATH_MAX];
	struct cell_info info;          /* of the source */
	char id[CELL_ID_LEN + 1];
	int memory, state;              /* the point */
	uint64_t at;
	char head[HASH_HEX + 1];
};

enum { OPT_NAME, OPT_COUNT };

const struct cli_option cli_fork_options[] = {
	{ "name", 0, "NAME", "name the copy, or NAME-1, NAME-2 and so on", OPT_NAME },
	{ "count", 0, "N", "make so many copies of the same moment (1)", OPT_COUNT },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct forks *f = arg;

	if (option->id == OPT_COUNT)
		return num_parse_count(value, 1, FORKS_MAX, &f->count, err);
	f->name = value;
	return 0;
}

/* ---- the point ---- */

static int
ask(int socket, struct forks *f, struct err *err)
{
	const int fds[] = { f->memory, f->state };
	OWN(ipc_message_free) struct ipc_message answer = {0};
	OWN(buf_free) struct buf message;
	const char *text;
	uint32_t code;
	int r;

	steer_put(&message, &(struct steer_request){ .verb = VERB_FORK });
	r = ipc_send(socket, &message, fds, ARRAY_LEN(fds), err);
	r = r == 0 ? ipc_receive(socket, &answer, err) : r;
	if (r < 0)
		return r == -EPIPE ? err_set(err, EPIPE, "cell %s has ended", f->id) : r;
	if (answer.type == CONTROL_REFUSED && buf_get_u32(&answer.body, &code) == 0 && code != 0 &&
	    buf_get_str(&answer.body, &text) == 0)
		return err_set(err, (int)code, "%s", text);
	if (answer.type != CONTROL_DONE || buf_get_u64(&answer.body, &f->at) < 0 || buf_get_str(&answer.body, &text) < 0 ||
	    strlen(text) > HASH_HEX)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	memcpy(f->head, text, strlen(text) + 1);
	return 0;
}

/* Nobody can change them any more: no copy can write into another. */
static int
seal(int fd, struct err *err)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0 ?
	       err_errno(err, "cannot seal the copy") : 0;
}

static int
take_point(const char *word, struct forks *f, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int runtime = cli_find_running(word, &entry, err), socket = -1;
	int r = runtime < 0 ? runtime : cell_control_info(runtime, &entry, &f->info, err);

	if (r < 0)
		return r;
	memcpy(f->id, entry.id, sizeof(f->id));
	f->memory = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	f->state = memfd_create("state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	socket = cell_connect(runtime, &entry, err);
	if (socket < 0)
		return socket;
	if (f->memory < 0 || f->state < 0)
		return err_errno(err, "cannot make files for the copy");
	r = ask(socket, f, err);
	r = r == 0 ? seal(f->memory, err) : r;
	r = r == 0 ? seal(f->state, err) : r;
	return r == 0 && f->info.spec.again == NULL ? err_set(err, EBADMSG, "cell %s does not say how it was started", f->id) : r;
}

/* ---- the copies ---- */

static pid_t
start_copy(const struct forks *f, uint64_t number, struct err *err)
{
	const struct spawn_fd fds[] = { { f->memory, CELL_POINT_MEMORY_FD }, { f->state, CELL_POINT_STATE_FD } };
	const struct cell_spec *spec = &f->info.spec;
	char machine[HASH_HEX + 1], of[512];
	OWN(freep) char **argv = calloc(strv_len(spec->again) + 4, sizeof(*argv));
	OWN(freep) char *name = f->name == NULL ? NULL : f->count > 1 ? str_format(":%s-%llu", f->name, (unsigned long long)number) :
	                        str_format(":%s", f->name);
	size_t n = 0;

	if (argv == NULL || (f->name != NULL && name == NULL))
		return err_set(err, ENOMEM, "out of memory");
	cell_spec_hash_machine(spec, machine);
	snprintf(of, sizeof(of), "--fork-of=%s:%llu:%s:%s:%d:%d%s", f->id, (unsigned long long)f->at, f->head, machine,
	         CELL_POINT_MEMORY_FD, CELL_POINT_STATE_FD, name != NULL ? name : "");
	argv[n++] = (char[]){ "cloister" };
	argv[n++] = (char[]){ "run" };
	argv[n++] = of;
	for (size_t i = 0; spec->again[i] != NULL; i++)
		argv[n++] = spec->again[i];
	return spawn_start(&(struct spawn){ .path = f->program, .argv = argv, .cwd = spec->again_in, .fds = fds,
	                   .n_fds = ARRAY_LEN(fds) }, NULL, err);
}

/* All start at once; each prints its id. */
static int
start_copies(const struct forks *f, struct err *err)
{
	pid_t pids[FORKS_MAX];
	uint64_t n = 0;
	int r = 0, status = 0;

	while (n < f->count && (pids[n] = start_copy(f, n + 1, err)) > 0)
		n++;
	r = n < f->count ? pids[n] : 0;
	for (uint64_t i = 0; i < n; i++)
		if (spawn_await(pids[i], NULL) != 0)
			status = CLI_FAILED;
	return r < 0 ? r : status;
}

static void
forks_free(struct forks *f)
{
	closep(&f->memory);
	closep(&f->state);
	cell_spec_free(&f->info.spec);
}

int
cmd_fork(int argc, char **argv)
{
	OWN(forks_free) struct forks f = { .count = 1, .memory = -1, .state = -1 };
	struct err err = {0};
	int rest, r = cli_parse(cli_fork_options, argc, argv, true, take_option, &f, &rest, &err);

	if (r == 0 && argc - rest != 1)
		r = err_set(&err, EINVAL, "name one cell: cloister fork CELL [--name NAME] [--count N]");
	if (r == 0 && f.name != NULL && !cell_name_ok(f.name))
		r = err_set(&err, EINVAL, "'%s' is no name for a cell: use letters, digits, '.', '_' and '-'", f.name);
	if (r == 0)
		r = exe_find_cloister(f.program, &err);
	if (r == 0)
		r = take_point(argv[rest], &f, &err);
	if (r == 0)
		r = start_copies(&f, &err);
	return r < 0 ? cli_fail(&err) : r;
}
