/* Who may ask a supervisor for what, and when. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "proc/supervisor/supervisor.h"
#include "test.h"

/* A client of this process's own user, which is the cell's. */
static int
ask(struct supervisor *sv, enum steer_verb verb, const char *by, uint64_t n)
{
	struct steer_call call = { .q = { .verb = verb, .by = by, .why = "", .n = { n } } };
	struct client client = { .sv = sv };
	struct err err = {0};
	int ends[2], r;

	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	client.source.fd = ends[0];
	steer_find_who(&client, &call);
	r = supervisor_may_ask(&client, &call, &err);
	CHECK(r == -err.code);
	close(ends[0]);
	close(ends[1]);
	return r;
}

/* By the cell's state: it runs, has not begun, is frozen, is being ended, is dead. */
TEST(supervisor_may_ask_when)
{
	static const struct {
		enum steer_verb verb;
		int runs, new, frozen, ending, dead;
	} cases[] = {
		{ VERB_INFO, 0, 0, 0, 0, 0 },
		{ VERB_WAIT, 0, 0, 0, 0, 0 },
		{ VERB_STOP, 0, 0, 0, 0, 0 },
		{ VERB_KILL, 0, 0, 0, 0, 0 },
		{ VERB_FREEZE, 0, -ESRCH, 0, 0, -ESRCH },
		{ VERB_THAW, 0, -ESRCH, 0, 0, -ESRCH },
		{ VERB_EXEC, 0, -ESRCH, -EBUSY, 0, -ESRCH },
		{ VERB_PAUSE, 0, -ESRCH, 0, -ESRCH, -ESRCH },
		{ VERB_RESUME, 0, -ESRCH, 0, -ESRCH, -ESRCH },
		{ VERB_FORK, 0, -ESRCH, -EBUSY, -ESRCH, -ESRCH },
		{ VERB_SIGNAL, 0, 0, 0, 0, 0 },
		{ VERB_RESIZE, 0, 0, 0, 0, 0 },
		{ VERB_TTL, 0, -ESRCH, 0, -ESRCH, -ESRCH },
		{ VERB_GET_POLICY, 0, 0, 0, 0, 0 },
		{ VERB_POLICY, 0, 0, 0, 0, -ESRCH },
		{ VERB_ALLOW, 0, 0, 0, 0, -ESRCH },
		{ VERB_DENY, 0, 0, 0, 0, -ESRCH },
		{ VERB_GET_BUDGET, 0, 0, 0, 0, 0 },
		{ VERB_BUDGET, 0, 0, 0, 0, -ESRCH },
		{ VERB_APPROVALS, 0, 0, 0, 0, 0 },
		{ VERB_APPROVE, 0, 0, 0, 0, -ESRCH },
		{ VERB_REFUSE, 0, 0, 0, 0, -ESRCH },
		{ VERB_SECRETS, 0, 0, 0, 0, 0 },
		{ VERB_REVOKE, 0, 0, 0, 0, -ESRCH },
		{ VERB_ROTATE, 0, 0, 0, 0, -ESRCH },
		{ VERB_LOST_RIGHTS, 0, 0, 0, 0, 0 },
		{ VERB_START, 0, 0, 0, -ESRCH, -ESRCH },
		{ VERB_SIGNAL_AGENT, 0, 0, 0, 0, -ESRCH },
		{ VERB_ATTACH, 0, -ESRCH, 0, 0, 0 },
		{ VERB_COPY, 0, -ESRCH, 0, 0, -ESRCH },
		{ VERB_CHECKPOINT, 0, -ESRCH, 0, 0, -ESRCH },
	};
	static struct supervisor sv;

	CHECK(ARRAY_LEN(cases) == STEER_VERBS);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		sv = (struct supervisor){ .begun = true };
		CHECK(ask(&sv, cases[i].verb, "", 0) == cases[i].runs);
		sv.begun = false;
		CHECK(ask(&sv, cases[i].verb, "", 0) == cases[i].new);
		sv = (struct supervisor){ .begun = true, .frozen = true };
		CHECK(ask(&sv, cases[i].verb, "", 0) == cases[i].frozen);
		sv.frozen_for_approval = true;
		CHECK(ask(&sv, cases[i].verb, "", 0) == cases[i].frozen);
		sv = (struct supervisor){ .begun = true, .killed_by = KILLED_BY_OPERATOR };
		CHECK(ask(&sv, cases[i].verb, "", 0) == cases[i].ending);
		sv = (struct supervisor){ .begun = true, .dead = true };
		CHECK(ask(&sv, cases[i].verb, "", 0) == cases[i].dead);
	}
}

TEST(supervisor_may_ask_stranger)
{
	static struct supervisor sv = { .begun = true };

	/* The kernel does not report whose descriptor this is. */
	for (int i = 0; i < STEER_VERBS; i++) {
		struct client client = { .sv = &sv, .source = { .fd = -1 } };
		struct steer_call call = { .q = { .verb = (enum steer_verb)i, .by = "", .why = "" } };
		struct err err = {0};

		CHECK(supervisor_may_ask(&client, &call, &err) == -EPERM && err.code == EPERM);
	}
}

TEST(supervisor_may_ask_approver)
{
	static const struct {
		const char *by;
		int want;
	} cases[] = {
		{ "token ann", 0 },
		{ "token bob", -EPERM },        /* the rule does not name him */
		{ "token eve", -EPERM },        /* the cell acts for her */
		{ "", -EPERM },
	};
	char principal[] = "eve";
	static struct supervisor sv;
	struct approval a = { .sv = &sv, .n = 3, .state = APPROVAL_PENDING };

	sv = (struct supervisor){ .begun = true, .spec = { .id = "abcd1234", .principal = principal },
	                          .approvals = { .first = &a, .n = 1, .n_pending = 1 } };
	a.q.n_approvers = 2;
	a.q.approvers[0] = "token:ann";
	a.q.approvers[1] = "token:eve";
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		CHECK(ask(&sv, VERB_APPROVE, cases[i].by, 3) == cases[i].want);
		CHECK(ask(&sv, VERB_REFUSE, cases[i].by, 3) == cases[i].want);
		/* Any operator may look. */
		CHECK(ask(&sv, VERB_APPROVALS, cases[i].by, 3) == 0);
	}
}
