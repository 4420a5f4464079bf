/* dispatch_spawn.c - starts the programs that do the work. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "dispatch/dispatch_parts.h"
#include "loop/child.h"

/* Signals from the terminal must not reach it. */
static int
start(struct child *child, struct loop *loop, char *const *argv, int lock, int said, struct err *err)
{
	const struct spawn_fd fds[] = { { SPAWN_NULL, 0 }, { SPAWN_NULL, 1 }, { said, 2 }, { lock, 3 } };

	return child_start(child, loop, &(struct spawn){ .argv = argv, .cwd = "/", .fds = fds,
		.n_fds = ARRAY_LEN(fds), .flags = SPAWN_APART }, err);
}

int
dispatch_spawn(struct child *child, struct loop *loop, char *const *argv, int lock, struct err *err)
{
	return start(child, loop, argv, lock, SPAWN_NULL, err);
}

int
dispatch_spawn_for(struct child *child, struct loop *loop, const char *verb, const char *id, int lock, int *ret_said,
                   struct err *err)
{
	char verb_word[16], id_word[DISPATCH_ID_LEN + 1], parent[32];
	char *const argv[] = { (char[]){ "cloister-dispatch" }, verb_word, (char[]){ "--" }, id_word, parent, NULL };
	OWN(closep) int said = memfd_create("said", MFD_CLOEXEC);
	int r;

	if (said < 0)
		return err_errno(err, "cannot make a memory file");

	snprintf(verb_word, sizeof(verb_word), "%s", verb);
	snprintf(id_word, sizeof(id_word), "%s", id);
	snprintf(parent, sizeof(parent), "%d", getpid());
	r = start(child, loop, argv, lock, said, err);
	if (r == 0)
		*ret_said = TAKE_FD(said);
	return r;
}

int
dispatch_prune_start(struct child *child, struct loop *loop, uint64_t older_ms, struct err *err)
{
	char older[48];

	snprintf(older, sizeof(older), "--older=%llums", (unsigned long long)older_ms);
	return dispatch_spawn(child, loop, (char *[]){ (char[]){ "cloister-dispatch" },
		(char[]){ "dispatches" }, older, (char[]){ "--" }, (char[]){ "prune" }, NULL }, -1, err);
}
