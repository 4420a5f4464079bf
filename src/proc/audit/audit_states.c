/* audit_states.c - compares the branches and tags of versioned states with what the operator's timeline has about them.
 *
 * Each change of a ref is recorded.  So a ref that is not at its last recorded commit was changed by something else: somebody
 * has rewritten the history. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "audit/fields.h"
#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "proc/audit/audit_verifier.h"
#include "state/state_read.h"

/* ---- collecting ---- */

static struct audit_state_ref *
find(struct audit_states *s, const char *state, const char *ref)
{
	for (size_t i = s->n; i-- > 0;)
		if (strcmp(s->at[i].state, state) == 0 && strcmp(s->at[i].ref, ref) == 0)
			return &s->at[i];
	return NULL;
}

static int
set(struct audit_states *s, const char *state, const char *ref, const char *commit)
{
	struct audit_state_ref *found = find(s, state, ref), *more;

	if (found == NULL && s->n >= AUDIT_STATE_REFS_MAX) {
		s->has_more = true;
		return 0;
	}
	if (found == NULL) {
		if ((s->n & (s->n - 1)) == 0) {
			more = realloc(s->at, (s->n == 0 ? 1 : 2 * s->n) * sizeof(*more));
			if (more == NULL)
				return -ENOMEM;
			s->at = more;
		}
		found = &s->at[s->n++];
		*found = (struct audit_state_ref){0};
		snprintf(found->state, sizeof(found->state), "%s", state);
		snprintf(found->ref, sizeof(found->ref), "%s", ref);
	}
	snprintf(found->commit, sizeof(found->commit), "%s", commit);
	return 0;
}

int
audit_states_note(void *arg, const struct audit_record *record)
{
	static const char mark[] = "\"type\":\"state.";
	char state[STATE_NAME_MAX], ref[STATE_REF_MAX], commit[STATE_ID + 1] = "", type[32];
	struct audit_states *s = arg;

	if (memmem(record->event.at, record->event.len, mark, sizeof(mark) - 1) == NULL ||
	    !audit_field_text(record->event, "type", type, sizeof(type)) || strncmp(type, "state.", 6) != 0 ||
	    !audit_field_text(record->event, "state", state, sizeof(state)))
		return 0;
	if (strcmp(type, "state.removed") == 0) {
		for (size_t i = 0; i < s->n; i++)
			if (strcmp(s->at[i].state, state) == 0)
				s->at[i].commit[0] = '\0';
		return 0;
	}
	if (!audit_field_text(record->event, "ref", ref, sizeof(ref)))
		return 0;
	(void)audit_field_text(record->event, "commit", commit, sizeof(commit));
	return set(s, state, ref, commit);
}

void
audit_states_free(struct audit_states *s)
{
	free(s->at);
	*s = (struct audit_states){0};
}

/* ---- comparing ---- */

static void
tell(struct audit_verifier *v, const char *state, const char *ref, const char *text)
{
	v->bad_states++;
	if (v->args->json) {
		json_open(&v->out, NULL, '{');
		json_str(&v->out, "state", state);
		json_str(&v->out, "ref", ref);
		json_str(&v->out, "message", text);
		json_close(&v->out, '}');
		return;
	}
	printf("state '%s': ", state);
	text_print_safe(stdout, text, strlen(text), false);
	putchar('\n');
}

/* A crash left it between the ref and its record; whoever uses the state next completes it. */
static bool
is_pending(int dir)
{
	return faccessat(dir, STATE_PENDING, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void
compare(struct audit_verifier *v, const struct audit_state_ref *known, int dir)
{
	char now[STATE_ID + 1] = "", text[256];
	struct err err = {0};
	int r = state_ref_read(dir, known->ref, now, &err);

	if (strcmp(now, known->commit) == 0)
		return;
	if (r == -ENOENT || r == 0)
		snprintf(text, sizeof(text), "'%.80s' is at %.12s, and the last record about it has %.12s: its history was rewritten",
		         known->ref, now[0] != '\0' ? now : "no commit", known->commit[0] != '\0' ? known->commit : "no commit");
	else
		snprintf(text, sizeof(text), "%.200s", err.text);
	tell(v, known->state, known->ref, text);
}

static void
compare_unknown(struct audit_verifier *v, const char *state, int dir)
{
	OWN(freep) struct state_ref *refs = NULL;
	struct err err = {0};
	char text[192];
	size_t n = 0;

	if (state_ref_list(dir, &refs, &n, &err) < 0) {
		tell(v, state, NULL, err.text);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (find(&v->states, state, refs[i].ref) != NULL)
			continue;
		snprintf(text, sizeof(text), "'%.80s' is at %.12s, and no record is about it", refs[i].ref, refs[i].id);
		tell(v, state, refs[i].ref, text);
	}
}

/* The state's folder with its lock, so that nothing is between a ref and its record; -ENOENT. */
static int
open_locked(int all, const char *name, int *ret_lock)
{
	OWN(closep) int dir = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return -ENOENT;
	*ret_lock = openat(dir, STATE_LOCK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (*ret_lock >= 0)
		(void)flock(*ret_lock, LOCK_SH);
	return TAKE_FD(dir);
}

static void
compare_state(struct audit_verifier *v, int all, const char *name)
{
	int lock = -1;
	OWN(closep) int dir = open_locked(all, name, &lock);

	if (dir >= 0 && !is_pending(dir)) {
		/* Changes while the timeline was read are in the records that it has now. */
		(void)audit_see_states(v);
		for (size_t i = 0; i < v->states.n; i++)
			if (strcmp(v->states.at[i].state, name) == 0)
				compare(v, &v->states.at[i], dir);
		if (!v->states.has_more && v->states.is_whole)
			compare_unknown(v, name, dir);
	}
	if (lock >= 0)
		close(lock);
}

static bool
is_there(char *const *names, const char *state)
{
	for (; *names != NULL; names++)
		if (strcmp(*names, state) == 0)
			return true;
	return false;
}

int
audit_verify_states(struct audit_verifier *v, struct err *err)
{
	OWN(closep) int all = data_folder(STATE_FOLDER, false, NULL);
	OWN(strv_freep) char **names = NULL;
	int r = state_list(&names, err);

	if (r < 0 || v->operator < 0)
		return r;
	for (size_t i = 0; all >= 0 && names[i] != NULL; i++)
		compare_state(v, all, names[i]);
	for (size_t i = 0; i < v->states.n; i++)
		if (v->states.at[i].commit[0] != '\0' && strcmp(v->states.at[i].ref, "refs/heads/" STATE_MAIN) == 0 &&
		    !is_there(names, v->states.at[i].state))
			tell(v, v->states.at[i].state, v->states.at[i].ref, "it is gone, and no record says that it was removed");
	return 0;
}
