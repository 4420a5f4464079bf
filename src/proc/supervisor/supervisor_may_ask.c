/* supervisor_may_ask.c - decides for every request of the control socket whether its client may make it:
 * by who the client is, for whom it acts, and the state of the cell. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cell/cell_user.h"
#include "proc/supervisor/supervisor.h"

/* ---- people ---- */

/* The names by which a rule, or the cell's principal, may refer to a person.  The first is unique,
 * and is used for people and records. */
struct person {
	char names[APPROVAL_NAMES][COURIER_ASK_BY + 1];
	size_t n;
};

static void
add_name(struct person *p, const char *before, const char *name)
{
	snprintf(p->names[p->n++], COURIER_ASK_BY + 1, "%s%s", before, name);
}

/* The service writes "uid N" and "token NAME" for the people it acts for. */
static void
find_person(const struct steer_who *who, struct person *ret_person)
{
	char number[32], name[CELL_USER_MAX];
	uid_t uid = who->uid;

	*ret_person = (struct person){0};
	if (who->named && strncmp(who->by, "token ", 6) == 0) {
		add_name(ret_person, "token:", who->by + 6);
		return;
	}
	if (who->named && sscanf(who->by, "uid %u", &uid) != 1) {
		add_name(ret_person, "", who->by);
		return;
	}
	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	if (cell_user_name(uid, name)) {
		add_name(ret_person, "user:", name);
		add_name(ret_person, "", name);
	}
	add_name(ret_person, "uid:", number);
}

static bool
is_named(const struct person *p, const char *name)
{
	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->names[i], name) == 0)
			return true;
	return false;
}

/* With `--principal`, a token may also be given by its bare name. */
static bool
is_principal(const struct person *p, const char *principal)
{
	return principal[0] != '\0' && (is_named(p, principal) ||
	       (strncmp(p->names[0], "token:", 6) == 0 && strcmp(p->names[0] + 6, principal) == 0));
}

static bool
may_answer(const struct approval *a, const struct person *p)
{
	for (uint32_t i = 0; i < a->q.n_approvers; i++)
		if (is_named(p, a->q.approvers[i]))
			return true;
	return a->q.n_approvers == 0;
}

void
supervisor_name_person(const struct steer_who *who, char ret_name[COURIER_ASK_BY + 1])
{
	struct person person;

	find_person(who, &person);
	memcpy(ret_name, person.names[0], COURIER_ASK_BY + 1);
}

static int
check_person(const struct approval *a, const struct person *p, struct err *err)
{
	const struct supervisor *sv = a->sv;
	char id[APPROVAL_ID_MAX];

	approval_id(a, id);
	if (is_principal(p, sv->spec.principal))
		return err_set(err, EPERM, "%s cannot answer %s: the cell acts for %s, and nobody approves "
		               "their own requests", p->names[0], id, sv->spec.principal);
	if (!may_answer(a, p))
		return err_set(err, EPERM, "%s is not among the approvers of %s that its rule names: see "
		               "`cloister approvals`", p->names[0], id);
	return 0;
}

/* ---- requests ---- */

/* An approval that does not wait has no approvers: the answer to it is refused in any case. */
static int
check_approver(const struct supervisor *sv, const struct steer_call *call, struct err *err)
{
	const struct approval *a = approval_find(sv, call->q.n[0]);
	struct person person;

	if (a == NULL || a->state != APPROVAL_PENDING)
		return 0;
	find_person(&call->who, &person);
	return check_person(a, &person, err);
}

static int
check_when(const struct supervisor *sv, unsigned when, struct err *err)
{
	if (((when & STEER_ALIVE) != 0 && sv->dead) || ((when & STEER_BEGUN) != 0 && !sv->begun) ||
	    ((when & STEER_LASTING) != 0 && sv->killed_by != KILLED_NOT))
		return err_set(err, ESRCH, "the cell is ending");
	if ((when & STEER_THAWED) != 0 && sv->frozen_for_approval)
		return err_set(err, EBUSY, "the cell stands still until what it asks for is answered: see "
		               "`cloister approvals %s`", sv->spec.id);
	if ((when & STEER_THAWED) != 0 && sv->frozen)
		return err_set(err, EBUSY, "the cell is frozen: `cloister thaw %s` first", sv->spec.id);
	return 0;
}

int
supervisor_may_ask(struct client *client, const struct steer_call *call, struct err *err)
{
	const struct steer_row *row = &steer_rows[call->q.verb];
	int r;

	if (!supervisor_client_is_operator(client))
		return err_set(err, EPERM, "only the cell's user and root may steer it");
	r = check_when(client->sv, row->when, err);
	if (r < 0)
		return r;
	switch (row->who) {
	case STEER_OPERATOR:
		return 0;
	case STEER_APPROVER:
		return check_approver(client->sv, call, err);
	}
	return err_set(err, EPERM, "nobody may ask the cell for '%s'", row->name);
}
