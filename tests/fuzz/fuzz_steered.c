/* fuzz_steered.c - what a courier says of steering: that a change is in force, what waits for people
 * and no longer does, what was led to, what tripped, and how often secrets were used; between what
 * operators ask for, and couriers that go and come.
 *
 * Whatever comes, each change is over once and no more, what is kept stays within its bounds, and
 * records are sound; what breaks the rules ends the courier. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "fuzz.h"
#include "proc/supervisor/supervisor.h"

#define ACTS 7                          /* of operators, beside what a courier says */

static struct supervisor sv;
static size_t begun, done;

/* ---- what is the rest of the supervisor's ---- */

void
supervisor_record_members(struct supervisor *s, const struct members *m)
{
	OWN(buf_free) struct buf text;
	const char *type;
	size_t len;

	(void)s;
	buf_init(&text, AUDIT_EVENT_MAX);
	members_put(m, &text);
	buf_put(&text, "", 1);
	assert(!buf_failed(&text) && members_check((char *)text.data, text.len - 1, &type, &len));
	assert(len > 0);
}

void
supervisor_record(struct supervisor *s, const char *did, const char *by, const char *note)
{
	(void)s, (void)did, (void)by, (void)note;
}

void
supervisor_tell_operator(struct supervisor *s, const char *type, const struct members *m)
{
	(void)s, (void)type;
	assert(m->n > 0);
}

void
supervisor_print(const char *text, size_t len)
{
	(void)text, (void)len;
}

void
supervisor_say(const struct supervisor *s, const char *fmt, ...)
{
	(void)s, (void)fmt;
}

void
supervisor_say_to_execs(const struct supervisor *s, const char *text)
{
	(void)s, (void)text;
}

bool
supervisor_step_begin(const struct supervisor *s, struct step *ret_step, const char *event)
{
	(void)s, (void)ret_step, (void)event;
	return false;
}

void
supervisor_step_end(const struct supervisor *s, struct step *step)
{
	(void)s, (void)step;
}

void
supervisor_notify(struct supervisor *s, const char *event, const struct buf *data)
{
	(void)s, (void)event;
	assert(!buf_failed(data) && data->len >= 2 && data->data[0] == '{');
}

void
supervisor_notify_own(struct supervisor *s, const char *event, const struct buf *data)
{
	supervisor_notify(s, event, data);
}

int
supervisor_freeze(struct supervisor *s, const char *by, struct err *err)
{
	(void)by;
	if (s->spec.root)
		return err_set(err, EPERM, "it cannot be");
	s->frozen = true;
	return 0;
}

bool
supervisor_is_to_stop(const struct supervisor *s, bool freeze)
{
	return !s->dead && s->killed_by == KILLED_NOT && !(freeze && s->frozen);
}

int
supervisor_freeze_for(struct supervisor *s, const char *id, struct err *err)
{
	return supervisor_freeze(s, id, err);
}

void
supervisor_thaw_after(struct supervisor *s, const char *id)
{
	(void)id;
	s->frozen = false;
}

void
supervisor_tell_limit(struct supervisor *s)
{
	(void)s;
}

void
supervisor_saver_go_back(struct supervisor *s, const char *cause)
{
	(void)s, (void)cause;
}

void
supervisor_kill(struct supervisor *s, enum supervisor_reason reason)
{
	s->killed_by = (int)reason;
}

void
supervisor_check_end(struct supervisor *s)
{
	(void)s;
}

uint64_t
supervisor_now_ns(void)
{
	return 1000000000;
}

uid_t
supervisor_client_describe(const struct client *client, char *ret_by, size_t size)
{
	(void)client;
	assert(size > 8);
	memcpy(ret_by, "uid 1000", 9);
	return 1000;
}

bool
supervisor_client_is_operator(const struct client *client)
{
	(void)client;
	return true;
}

void
supervisor_client_send(struct client *client, const struct buf *message, const int *fds, size_t n_fds)
{
	(void)client, (void)fds, (void)n_fds;
	assert(!buf_failed(message));
}

void
supervisor_client_refuse(struct client *client, const struct err *err)
{
	(void)client;
	assert(err->code != 0 && err->text[0] != '\0');
}

void
supervisor_client_drop(struct client *client)
{
	client->sv = NULL;
}

int
supervisor_policy_tell(struct supervisor *s)
{
	(void)s;
	return 0;
}

void
supervisor_tools_answer(struct supervisor *s, uint64_t number, bool yes, const char *text)
{
	assert(s == &sv && number != 0 && text[0] == (yes ? '\0' : text[0]));
}

int
supervisor_budget_tell(struct supervisor *s)
{
	(void)s;
	return 0;
}

/* ---- a courier ---- */

/* Nobody is at the other end; what it was sent is thrown away. */
static void
drain(int fd)
{
	char byte;

	while (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) > 0)
		;
}

/* OTHER: what cloister-tools says, in place of a courier. */
static int
say(uint32_t type, bool other, const uint8_t *data, size_t len)
{
	static int (*const takes[])(struct supervisor *sv, struct ipc_message *message) = {
		supervisor_steered, supervisor_asked, supervisor_withdrawn, supervisor_take_fired,
		supervisor_take_tripped, supervisor_secrets_used,
	}, (*const others[])(struct supervisor *sv, struct ipc_message *message) = {
		supervisor_asked_of_result, supervisor_withdrawn_of_result,
	};
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	int r;

	buf_init(&message.body, IPC_MESSAGE_MAX);
	buf_put(&message.body, data, len);
	assert(!buf_failed(&message.body));
	r = other ? others[type % ARRAY_LEN(others)](&sv, &message) : takes[type % ARRAY_LEN(takes)](&sv, &message);
	assert(r == 0 || r == -EBADMSG);
	return r;
}

/* ---- operators ---- */

static void
is_done(struct supervisor *s, struct steer *steer, const struct err *err)
{
	assert(s == &sv && steer->arg == &begun);
	assert((err->code == 0) == (err->text[0] == '\0'));
	done++;
}

static void
begin(void)
{
	static const struct steer_who who = { .by = "uid 1000" };
	struct steer *s = steer_begin(&sv, NULL, STEER_REVOKE, &who, is_done, &begun);

	if (s == NULL)
		return;
	begun++;
	buf_put_str(&s->message, "KEY");
	assert(steer_send(&sv, s) == 0);
}

/* One of an approval, by whom the first byte says. */
static void
answer(bool yes, uint64_t n, uint8_t who)
{
	struct client client = { .sv = &sv };
	uint64_t how = who % 3;
	struct steer_call call = { .q = {
		.verb = yes ? VERB_APPROVE : VERB_REFUSE, .by = (who & 1) != 0 ? "token ops" : "", .why = "why",
		.tells = (who & 2) != 0, .n = { n, how, how == CONTROL_APPROVE_FOR ? 60000 : 0 } } };
	struct err err = {0};

	steer_find_who(&client, &call);
	if (supervisor_may_ask(&client, &call, &err) < 0)
		assert(err.code != 0);
	else if (yes)
		(void)supervisor_answer_approve(&client, &call);
	else
		(void)supervisor_answer_refuse_asked(&client, &call);
	/* It goes as supervisor_client_drop() lets it. */
	for (struct steer *s = sv.steering.first; s != NULL; s = s->next)
		if (s->client == &client)
			s->client = NULL;
}

static void
courier_goes(void)
{
	supervisor_steer_gone(&sv);
	supervisor_approvals_gone(&sv, APPROVAL_OF_REQUEST, "its courier has gone");
	supervisor_approvals_gone(&sv, APPROVAL_OF_RESULT, "the gateway has gone");
	assert(begun == done && sv.steering.n == 0 && sv.approvals.n_pending == 0);
}

static void
courier_comes(void)
{
	uint32_t n;

	courier_goes();
	assert(supervisor_steer_prepare(&sv, &n, NULL) == 0 && n <= COURIER_STEERS_FIRST);
	supervisor_steer_flush(&sv);
}

static void
check(void)
{
	size_t pending = 0, n = 0;

	for (const struct approval *a = sv.approvals.first; a != NULL; a = a->next, n++)
		pending += a->state == APPROVAL_PENDING;
	assert(n == sv.approvals.n && pending == sv.approvals.n_pending);
	assert(pending <= 2 * APPROVALS_PENDING_MAX && n - pending <= APPROVALS_KEPT_MAX);
	assert(sv.approvals.n_open <= APPROVALS_OPEN_MAX && sv.fired.n <= COURIER_FIRED_MAX);
	assert(done <= begun && sv.steering.n <= STEERS_MAX + COURIER_STEERS_FIRST);
}

/* u8 what, u8 more of it (who answers, and 128: what cloister-tools says), u16 length, and so many bytes. */
static size_t
step(const uint8_t *data, size_t size, int *ret_r)
{
	size_t len = data[2] | (size_t)data[3] << 8;

	if (len > size - 4)
		len = size - 4;
	switch (data[0] % (ACTS + 6)) {
	case 0:
		begin();
		break;
	case 1:
	case 2:
		answer(data[0] % (ACTS + 6) == 1, data[1] % 80, len > 0 ? data[4] : 0);
		break;
	case 3:
		courier_goes();
		break;
	case 4:
		courier_comes();
		break;
	case 5:
		supervisor_repeats_end(&sv);
		break;
	case 6:
		sv.frozen = false;
		break;
	default:
		*ret_r = say(data[0] % (ACTS + 6) - ACTS, data[1] == 128, data + 4, len);
	}
	check();
	return 4 + len;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *secrets[] = { (char[]){ "KEY bearer api.example.com" }, (char[]){ "OTHER bearer *" }, NULL };
	char principal[] = "ann", name[] = "";
	int ends[2], r = 0;

	sv = (struct supervisor){ .state = -1, .begun = true,
	                          .spec = { .id = "abcd1234", .secrets = secrets,
	                                    .principal = principal, .name = name, .root = size > 0 && data[0] >= 128 } };
	begun = done = 0;
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	sv.egress.courier.fd = ends[0];
	sv.egress.running = true;
	assert(loop_new(&sv.loop, NULL) == 0);
	while (r == 0 && size >= 4) {
		size_t used = step(data, size, &r);

		data += used;
		size -= used;
		drain(ends[1]);
	}
	courier_goes();
	supervisor_repeats_end(&sv);
	supervisor_approvals_free(&sv);
	for (size_t i = 0; i < sv.fired.n; i++)
		buf_free(&sv.fired.at[i].bytes);
	loop_free(sv.loop);
	close(ends[0]);
	close(ends[1]);
	return 0;
}
