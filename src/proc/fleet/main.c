/* main.c - cloister-fleet: asks the engine of one target to start and count workers.
 *
 * It answers the questions of ipc/fleet_channel.h on descriptor 3, until the other end is closed.  The first one names the
 * target.  Then it reads the engine's variables and files, and locks itself down before the first byte goes out: it
 * reads the configuration of name servers and what the engine's own file names, and changes no file.
 *
 * `cloister operator` becomes it, too: operator.c. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "confine/lockdown.h"
#include "fleet/fleet.h"
#include "fleet/fleet_http.h"
#include "ipc/fleet_channel.h"
#include "ipc/ipc.h"
#include "proc/fleet/operator.h"

struct asked {
	struct fleet_plan plan;
	struct fleet_place place;
	const struct fleet *engine;
};

/* ---- before the first byte ---- */

static int
lock_down(const struct fleet_place *place, struct err *err)
{
	static const char *const own[] = { "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf" };
	const char *readable[ARRAY_LEN(own) + FLEET_READABLE_MAX + 1] = { NULL };
	size_t n = 0;

	for (; n < ARRAY_LEN(own); n++)
		readable[n] = own[n];
	for (size_t i = 0; i < FLEET_READABLE_MAX && place->readable[i] != NULL; i++)
		readable[n++] = place->readable[i];
	/* All descriptors that are open now are our own. */
	return lockdown_enter(&(struct lockdown){ .filter = FILTER_FLEET, .network = true, .readable = readable }, INT_MAX, err);
}

static int
begin(struct asked *a, struct buf *body, struct err *err)
{
	const char *content, *tag;
	int r;

	if (a->engine != NULL || buf_get_str(body, &content) < 0 || buf_get_str(body, &tag) < 0 || buf_left(body) != 0)
		return -EBADMSG;
	r = fleet_plan_read(content, strlen(content), tag, &a->plan, err);
	if (r < 0)
		return r;
	a->place.plan = &a->plan;
	a->engine = fleet_engine(a->plan.engine);
	if (a->engine == NULL)
		return err_set(err, ENOSYS, "this version of cloister has no engine '%.32s'", a->plan.engine);
	r = fleet_http_new(&a->place.http, err);
	r = r == 0 ? a->engine->open(&a->place, err) : r;
	return r == 0 ? lock_down(&a->place, err) : r;
}

/* ---- questions ---- */

static int
answer_count(struct asked *a, struct buf *body, struct buf *out, struct err *err)
{
	struct fleet_count count = { .why = "" };
	int r = buf_left(body) != 0 ? -EBADMSG : a->engine->count(&a->place, &count, err);

	buf_put_u32(out, count.alive);
	buf_put_u32(out, count.failed);
	buf_put_str(out, count.why);
	return r;
}

static int
name_job(const struct fleet_plan *plan, struct fleet_job *job, struct err *err)
{
	unsigned char random[5];
	char hex[2 * sizeof(random) + 1];
	size_t n;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), hex);
	snprintf(job->name, sizeof(job->name), "cloister-%.40s-%s", plan->name, hex);
	/* Engines want letters, digits and '-'. */
	while (n = strspn(job->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), job->name[n] != '\0')
		job->name[n] = '-';
	return 0;
}

/* Whoever asked has given up, and waits for this process to end. */
static bool
is_alone(void)
{
	struct pollfd p = { .fd = FLEET_CHANNEL_FD };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

static int
answer_start(struct asked *a, struct buf *body, struct buf *out, struct err *err)
{
	OWN(buf_free) struct buf ids = BUF(FLEET_START_MAX * (FLEET_ID_MAX + 8));
	uint32_t tries, n, done = 0;
	struct err why = {0};
	int r = 0;

	if (buf_get_u32(body, &tries) < 0 || buf_get_u32(body, &n) < 0 || n == 0 || n > FLEET_START_MAX)
		return -EBADMSG;
	for (; r == 0 && done < n && !is_alone(); done += r == 0) {
		struct fleet_job job = { .tries = tries == 1 };
		char id[FLEET_ID_MAX] = "";
		const char *token;

		if (buf_get_str(body, &token) < 0 || strlen(token) >= sizeof(job.token))
			return -EBADMSG;
		snprintf(job.token, sizeof(job.token), "%s", token);
		r = name_job(&a->plan, &job, &why);
		r = r == 0 ? a->engine->start(&a->place, &job, id, &why) : r;
		explicit_bzero(job.token, sizeof(job.token));
		if (r == 0)
			buf_put_str(&ids, id);
	}
	if (buf_failed(&ids))
		return err_set(err, ENOMEM, "out of memory");
	buf_put_u32(out, done);
	buf_put(out, ids.data, ids.len);
	buf_put_u32(out, r < 0 ? (uint32_t)-r : 0);
	buf_put_str(out, why.text);
	return 0;
}

static int
answer_look(struct asked *a, const char *id, struct buf *out, struct err *err)
{
	struct fleet_outcome outcome = { .status = -1 };
	int r = a->engine->look(&a->place, id, &outcome, err);

	buf_put_u32(out, outcome.ended);
	buf_put_u32(out, (uint32_t)outcome.status);
	buf_put_str(out, outcome.text);
	return r;
}

static int
answer_check(struct asked *a, struct buf *out, struct err *err)
{
	OWN(freep) struct fleet_findings *f = calloc(1, sizeof(*f));
	struct err why = {0};

	if (f == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (a->engine->check(&a->place, f, &why) < 0)
		fleet_find(f, FLEET_MISSING, "%s", why.text);
	buf_put_u32(out, (uint32_t)f->n);
	for (size_t i = 0; i < f->n; i++) {
		buf_put_u32(out, f->at[i].level);
		buf_put_str(out, f->at[i].text);
	}
	return 0;
}

/* -EBADMSG without an error: the question is malformed. */
static int
answer(struct asked *a, struct ipc_message *m, struct buf *out, struct err *err)
{
	const char *id;

	if (m->type == FLEET_OPEN)
		return begin(a, &m->body, err);
	if (a->engine == NULL)
		return -EBADMSG;
	switch (m->type) {
	case FLEET_COUNT:
		return answer_count(a, &m->body, out, err);
	case FLEET_START:
		return answer_start(a, &m->body, out, err);
	case FLEET_CHECK:
		return answer_check(a, out, err);
	case FLEET_LOOK:
	case FLEET_STOP:
		if (buf_get_str(&m->body, &id) < 0 || buf_left(&m->body) != 0 || strlen(id) >= FLEET_ID_MAX)
			return -EBADMSG;
		return m->type == FLEET_LOOK ? answer_look(a, id, out, err) : a->engine->stop(&a->place, id, err);
	default:
		return -EBADMSG;
	}
}

/* Until the other end is closed, or sends what it may not.  A target that cannot be opened ends it, too. */
static int
serve(struct asked *a)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message m = {0};
		OWN(buf_free) struct buf out = {0};
		struct err err = {0};
		uint32_t type;
		int r;

		if (ipc_receive(FLEET_CHANNEL_FD, &m, NULL) < 0)
			return 0;
		type = m.type;
		ipc_begin(&out, FLEET_DONE);
		r = answer(a, &m, &out, &err);
		if (r == -EBADMSG && err.code == 0)
			return TELL_FAILED;
		if (r < 0) {
			buf_free(&out);
			ipc_begin(&out, FLEET_FAILED);
			buf_put_u32(&out, (uint32_t)(err.code != 0 ? err.code : EIO));
			buf_put_str(&out, err.text);
		}
		if (ipc_send(FLEET_CHANNEL_FD, &out, NULL, 0, NULL) < 0 || (r < 0 && type == FLEET_OPEN))
			return r < 0 ? TELL_FAILED : 0;
	}
}

int
main(int argc, char **argv)
{
	static struct asked a;
	struct err err = {0};

	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 && strcmp(argv[1], "operator") == 0)
		return operator_run(argc, argv);
	if (argc > 1 || fcntl(FLEET_CHANNEL_FD, F_GETFD) < 0) {
		(void)err_set(&err, EINVAL, "cloister-fleet is started by cloister only");
		return tell_error(&err);
	}
	return serve(&a);
}
