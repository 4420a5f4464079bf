/* state_checkpoint.c - `cloister state checkpoint`: commits the states of a running cell. */
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cli/cli.h"
#include "cli/state.h"
#include "ipc/control_channel.h"
#include "ipc/ipc.h"
#include "steer/steer.h"

struct point {
	const char *state, *branch, *commit, *why;
	uint32_t same;
	uint64_t refused, pending;
};

static int
other_version(struct err *err)
{
	return err_set(err, EBADMSG, "the cell's supervisor is of another version");
}

static int
get_point(struct buf *b, struct point *p, struct err *err)
{
	return buf_get_str(b, &p->state) < 0 || buf_get_str(b, &p->branch) < 0 || buf_get_str(b, &p->commit) < 0 ||
	       buf_get_u32(b, &p->same) < 0 || buf_get_u64(b, &p->refused) < 0 || buf_get_u64(b, &p->pending) < 0 || buf_get_str(b, &p->why) < 0 ?
	       other_version(err) : 0;
}

static void
print(const struct point *p, struct json *w)
{
	if (w != NULL) {
		json_open(w, NULL, '{');
		json_str(w, "state", p->state);
		json_str(w, "branch", p->branch);
		json_str(w, "commit", p->commit);
		json_bool(w, "changed", p->same == 0 && p->why[0] == '\0');
		json_u64(w, "refused", p->refused);
		json_u64(w, "pending", p->pending);
		if (p->why[0] != '\0')
			json_str(w, "why", p->why);
		json_close(w, '}');
	} else if (p->why[0] != '\0') {
		fprintf(stderr, "cloister: state '%s' is not committed: %s\n", p->state, p->why);
	} else {
		printf("%s %.12s%s\n", p->state, p->commit, p->same != 0 ? " (nothing changed)" : "");
	}
}

static int
ask(int socket, struct ipc_message *ret_answer, struct err *err)
{
	OWN(buf_free) struct buf request = {0};
	const char *text;
	uint32_t code;
	int r;

	steer_put(&request, &(struct steer_request){ .verb = VERB_CHECKPOINT });
	r = ipc_send(socket, &request, NULL, 0, err);
	r = r == 0 ? ipc_receive(socket, ret_answer, err) : r;
	if (r < 0)
		return err_set(err, EPIPE, "the cell ended meanwhile: its states are committed at its end");
	if (ret_answer->type == CONTROL_REFUSED && buf_get_u32(&ret_answer->body, &code) == 0 &&
	    buf_get_str(&ret_answer->body, &text) == 0)
		return err_set(err, (int)code, "%s", text);
	return ret_answer->type == CONTROL_DONE ? 0 : other_version(err);
}

int
state_do_checkpoint(const struct state_words *words, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = {0};
	struct json out = { .out = stdout }, *w = words->json ? &out : NULL;
	struct cell_entry entry;
	OWN(closep) int socket = cli_connect(words->words[0], &entry, err);
	struct point p;
	uint32_t n;
	int r = socket < 0 ? socket : ask(socket, &answer, err), status = 0;

	if (r == 0 && (buf_get_u32(&answer.body, &n) < 0 || n > CELL_STATES_MAX))
		r = other_version(err);
	if (r == 0 && w != NULL)
		json_open(w, NULL, '[');
	for (; r == 0 && n > 0; n--) {
		r = get_point(&answer.body, &p, err);
		if (r < 0)
			break;
		print(&p, w);
		status = p.why[0] != '\0' ? 1 : status;
	}
	if (r == 0 && w != NULL) {
		json_close(w, ']');
		putchar('\n');
	}
	return r < 0 ? r : status;
}
