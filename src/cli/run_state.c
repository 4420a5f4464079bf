/* run_state.c - --state, and `state` of a policy: gives the cell the files of versioned states.
 *
 * cloister-saver opens the states, and commits what the cell makes of them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/run.h"
#include "ipc/ipc.h"
#include "ipc/saver_channel.h"

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* ---- what is asked for ---- */

int
run_add_state(struct run *run, const char *text, struct err *err)
{
	struct policy_state state;
	int r = policy_state_parse(text, &state, err);

	if (r < 0)
		return err_wrap(err, "--state");
	if (policy_states_find(&run->states, state.name) != NULL)
		return err_set(err, EEXIST, "--state '%s' is given twice", state.name);
	if (run->states.n == POLICY_STATES_MAX)
		return err_set(err, E2BIG, "--state is given more than %d times", POLICY_STATES_MAX);
	run->states.at[run->states.n++] = state;
	return 0;
}

int
run_set_state_every(struct run *run, const char *value, struct err *err)
{
	struct policy_state state = {0};

	run->state_every = value;
	return policy_state_parse_every(value, &state, err) < 0 ? err_wrap(err, "--state-every") : 0;
}

int
run_take_states(struct run *run, const struct policy_states *states, struct err *err)
{
	/* Like a secret: a stranger's policy must not choose whose memory its agent writes. */
	if (states->n > 0 && run->policy_found && !run->policy_accepted)
		return err_set(err, EPERM, "the policy that was found gives the cell the state '%s', but it was not named: read "
		               "it, then name it with -p; or use --state, and ignore it with --no-policy", states->at[0].name);
	for (size_t i = 0; i < states->n; i++) {
		const struct policy_state *from = &states->at[i];
		struct policy_state *to = policy_states_find(&run->states, from->name), said;

		if (to == NULL && run->states.n == POLICY_STATES_MAX)
			return err_set(err, E2BIG, "--state and the policy give more than %d states", POLICY_STATES_MAX);
		if (to == NULL) {
			run->states.at[run->states.n++] = *from;
			continue;
		}
		/* A document has all of it already, and the command line has a name and perhaps a place. */
		said = *to;
		*to = *from;
		if (said.path[0] != '\0')
			memcpy(to->path, said.path, sizeof(to->path));
		if (run->doc != NULL)
			*to = said;
	}
	for (size_t i = 0; run->state_every != NULL && i < run->states.n; i++)
		(void)policy_state_parse_every(run->state_every, &run->states.at[i], NULL);
	return 0;
}

/* ---- asking the saver ---- */

static int
start_saver(struct run *run, struct err *err)
{
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	run->saver_fd = fcntl(ends[0], F_DUPFD_CLOEXEC, CELL_FDS_END);
	close(ends[0]);
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-saver" }, NULL },
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, 0 }, { SPAWN_NULL, 1 }, { SPAWN_NULL, 2 },
		                            { ends[1], SAVER_CHANNEL_FD } },
		.n_fds = 4, .flags = SPAWN_APART | SPAWN_ONLY }, NULL, err);
	close(ends[1]);
	return pid < 0 ? pid : run->saver_fd < 0 ? err_errno(err, "cannot make a channel") : 0;
}

static int
ask(const struct run *run, struct ipc_message *ret_answer, struct err *err)
{
	OWN(buf_free) struct buf message;
	const char *text;
	uint32_t code;

	ipc_begin(&message, SAVER_OPEN);
	buf_put_str(&message, run->spec.id);
	buf_put_u32(&message, (uint32_t)run->states.n);
	for (size_t i = 0; i < run->states.n; i++) {
		const struct policy_state *s = &run->states.at[i];

		buf_put_str(&message, s->name);
		buf_put_str(&message, run->state_commits[i] != NULL ? run->state_commits[i] : "");
		buf_put_u32(&message, s->on_busy);
		buf_put_str(&message, s->guards);
	}
	if (ipc_send(run->saver_fd, &message, NULL, 0, NULL) < 0 || ipc_receive(run->saver_fd, ret_answer, NULL) < 0)
		return err_set(err, EIO, "cloister-saver, which opens states, died: reinstall cloister, or look into the system's "
		               "log");
	if (ret_answer->type == SAVER_OPENED)
		return 0;
	if (ret_answer->type != SAVER_FAILED || buf_get_u32(&ret_answer->body, &code) < 0 ||
	    buf_get_str(&ret_answer->body, &text) < 0)
		return err_set(err, EIO, "cloister-saver sent a malformed answer: reinstall cloister");
	return err_set(err, code > 0 && code < 4096 ? (int)code : EIO, "%s", text);
}

/* ---- grants ---- */

static int
grant(struct run *run, const char *host, const char *cell, enum cell_access access, struct err *err)
{
	int r = run_grant_path(run, host, cell, access, err);

	if (r == 0)
		run->spec.grants[run->spec.n_grants - 1].state = true;
	return r;
}

/* What the agent may not change is mounted read-only over the state, if it exists. */
static int
grant_protected(struct run *run, const char *path, const char *cell, const char *inner, struct err *err)
{
	OWN(freep) char *host = str_format("%s/%s", path, inner), *inside = str_format("%s/%s", cell, inner);
	struct stat st;

	if (host == NULL || inside == NULL)
		return no_memory(err);
	if (lstat(host, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return 0;
	return grant(run, host, inside, CELL_READ, err);
}

static int
grant_all_protected(struct run *run, const char *guards, const char *path, const char *cell, struct err *err)
{
	static const char word[] = "protect ";
	OWN(freep) char *copy = strdup(guards);
	char *lines = copy, *line;
	int r = copy == NULL ? no_memory(err) : 0;

	while (r == 0 && (line = strsep(&lines, "\n")) != NULL)
		if (strncmp(line, word, sizeof(word) - 1) == 0)
			r = grant_protected(run, path, cell, line + sizeof(word) - 1, err);
	return r;
}

/* "~" is the agent's home. */
static char *
find_place(const struct policy_state *s)
{
	return s->path[0] == '\0' ? str_format(CELL_HOME "/%s", s->name) :
	       s->path[0] == '~' ? str_format(CELL_HOME "%s", s->path + 1) : strdup(s->path);
}

static int
take_one(struct run *run, size_t i, struct buf *answer, struct err *err)
{
	const struct policy_state *s = &run->states.at[i];
	struct cell_state *state = &run->spec.states[i];
	OWN(freep) char *cell = find_place(s);
	const char *commit, *path, *branch, *busy;
	uint32_t read_only;
	int r;

	if (buf_get_str(answer, &commit) < 0 || buf_get_str(answer, &path) < 0 || buf_get_str(answer, &branch) < 0 ||
	    buf_get_u32(answer, &read_only) < 0 || buf_get_str(answer, &busy) < 0)
		return err_set(err, EIO, "cloister-saver sent a malformed answer: reinstall cloister");
	run->spec.n_states++;
	*state = (struct cell_state){ .name = strdup(s->name), .branch = strdup(read_only ? "" : branch),
		.commit = strdup(commit), .number = (uint32_t)i, .grant = (uint32_t)run->spec.n_grants, .quiet = s->quiet,
		.every_ms = s->every_ms, .guards = strdup(s->guards) };
	if (state->name == NULL || state->guards == NULL || state->branch == NULL || state->commit == NULL || cell == NULL)
		return no_memory(err);
	if (busy[0] != '\0' && !run->spec.quiet)
		fprintf(stderr, read_only ? "cloister: cell %s has the state '%s', so this cell may only read it\n" :
		        "cloister: cell %s has the state '%s', so this cell gets the branch '%s'\n", busy, s->name, branch);
	r = grant(run, path, cell, read_only ? CELL_READ : CELL_OVERLAY, err);
	return r < 0 || read_only ? r : grant_all_protected(run, s->guards, path, cell, err);
}

int
run_finish_states(struct run *run, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	int r = 0;

	if (run->state_every != NULL && run->states.n == 0)
		return err_set(err, EINVAL, "--state-every needs a state: add --state NAME");
	if (run->states.n == 0)
		return 0;
	r = start_saver(run, err);
	r = r == 0 ? ask(run, &answer, err) : r;
	for (size_t i = 0; r == 0 && i < run->states.n; i++)
		r = take_one(run, i, &answer.body, err);
	return r;
}
