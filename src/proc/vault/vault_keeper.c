/* vault_keeper.c - renews the expiring secrets of one cell: fetches them again in time, and passes
 * the new values to the courier.
 *
 * By then nothing of the vault is left in this process, neither its key nor its values: it has the
 * definitions of these few secrets, and the fetched values.  It runs the operator's programs, as
 * the operator, so there is little else that it could give up. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "ipc/keeper_channel.h"
#include "proc/vault/vault_proc.h"
#include "vault/vault_request.h"

#define LOOK_EVERY_S 60                 /* at least: the clock may be set, the machine may sleep */
#define RETRY_MAX_S 60
#define PATIENCE_MS 5000                /* for a courier that has sent a request, and does not read */

static uint64_t
now(void)
{
	return (uint64_t)time(NULL);
}

int
keeper_add(struct keeper *k, const struct secret *source, bool lent, struct secret_values *values,
           uint64_t fetched, struct err *err)
{
	OWN(buf_free) struct buf b = {0};
	struct kept *kept = &k->at[k->n];
	int r;

	if ((*source->from == '\0' && !lent) || values->expires == 0)
		return 0;
	/* The vault that owns SOURCE will be closed. */
	buf_init(&b, SECRET_ENCODED_MAX);
	secret_put(&b, source);
	r = buf_failed(&b) ? err_set(err, E2BIG, "the secret '%s' is too large", source->name) :
	                     secret_get(&b, &kept->secret, err);
	if (r < 0)
		return r;
	kept->lent = lent;
	kept->due = source_due(fetched, values->expires);
	kept->values = *values;
	*values = (struct secret_values){0};
	k->n++;
	return 0;
}

/* ---- messages ---- */

/* WAIT: for room, if there is none. */
static void
send_message(const void *data, size_t len, bool wait)
{
	struct pollfd p = { .fd = VAULT_KEEPER_FD, .events = POLLOUT };

	while (send(VAULT_KEEPER_FD, data, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		/* A courier that does not read asks again, sooner or later. */
		if (errno != EINTR && (errno != EAGAIN || !wait || poll(&p, 1, PATIENCE_MS) <= 0))
			return;
}

static void
tell_values(const struct kept *kept, bool wait)
{
	const char *name = kept->secret->name;
	OWN(guard_free) struct guard g = {0};
	OWN(buf_free) struct buf b = BUF(SECRET_NAME_MAX + 64);
	size_t size;

	buf_put_u32(&b, KEEPER_VALUES);
	buf_put_str(&b, name);
	buf_put_u64(&b, kept->values.expires);
	size = b.len;
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		size += 4 + kept->values.field[i].len + 1;
	if (buf_failed(&b) || size > KEEPER_MESSAGE_MAX || guard_alloc(&g, size, NULL) < 0)
		return;
	guard_put(&g, b.data, b.len);
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		guard_put_str(&g, kept->values.field[i].at, kept->values.field[i].len);
	send_message(g.at, g.len, wait);
}

static void
tell_failed(const struct kept *kept, const struct err *err, bool wait)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, KEEPER_FAILED);
	buf_put_str(&b, kept->secret->name);
	buf_put_str(&b, err->text);
	send_message(b.data, b.len, wait);
}

static void
tell_current(uint32_t number)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, KEEPER_CURRENT);
	buf_put_u32(&b, number);
	send_message(b.data, b.len, true);
}

/* ---- renewing ---- */

static int
fetch_lent(const struct secret *s, struct secret_values *ret_values, struct err *err)
{
	const struct lent *lent;
	const char *name = s->name;
	int r = lent_fetch(&name, 1, &lent, err);

	if (r < 0)
		return r;
	r = lent_find(lent, s->name) == NULL ? err_set(err, ENOENT, "the service has no secret '%s' any more", s->name) :
	    lent_values(lent, s->name, ret_values, err);
	lent_forget();
	return r;
}

static int
fetch(const struct kept *kept, struct secret_values *ret_values, struct err *err)
{
	const struct secret *s = kept->secret;
	OWN(guard_free) struct guard text = {0};
	OWN(secret_values_free) struct secret_values values = {0};
	int r = kept->lent ? fetch_lent(s, &values, err) : source_fetch(s->from, &text, err);

	if (r == 0 && !kept->lent)
		r = source_fields(s, &text, now(), &values, err);
	if (r == 0 && values.expires <= now())
		r = err_set(err, ETIME, "the source of '%s' returned a value that has already "
		            "expired", s->name);
	if (r < 0)
		return r;
	*ret_values = values;
	values = (struct secret_values){0};
	return 0;
}

static void
renew(struct kept *kept, bool wait)
{
	struct secret_values values = {0};
	struct err err = {0};
	uint64_t pause;

	if (fetch(kept, &values, &err) < 0) {
		pause = 1ULL << (kept->failures < 6 ? kept->failures : 6);
		kept->failures++;
		kept->due = now() + (pause < RETRY_MAX_S ? pause : RETRY_MAX_S);
		tell_failed(kept, &err, wait);
		return;
	}
	secret_values_free(&kept->values);
	kept->values = values;
	kept->failures = 0;
	kept->due = source_due(now(), values.expires);
	/* Whatever the expiry date: never in a busy loop. */
	if (kept->due <= now())
		kept->due = now() + 1;
	tell_values(kept, wait);
}

/* Handles one request; false: the peer broke the protocol, or is gone. */
static bool
answer(struct keeper *k)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t number;
	int r = ipc_receive(VAULT_KEEPER_FD, &message, NULL);

	if (r == -EAGAIN)
		return true;
	if (r < 0 || message.type != KEEPER_ASK || message.n_fds != 0 ||
	    buf_get_u32(&message.body, &number) < 0 || buf_left(&message.body) != 0)
		return false;
	k->asked = true;
	for (size_t i = 0; i < k->n; i++)
		if (k->at[i].due <= now())
			renew(&k->at[i], true);
		else if (k->at[i].failures == 0)
			tell_values(&k->at[i], true);
	tell_current(number);
	return true;
}

static int
wait_ms(const struct keeper *k)
{
	uint64_t first = now() + LOOK_EVERY_S;

	/* Nobody needs new values yet. */
	if (!k->asked)
		return -1;
	for (size_t i = 0; i < k->n; i++)
		if (k->at[i].due < first)
			first = k->at[i].due;
	return first > now() ? (int)(first - now()) * 1000 : 0;
}

/* Lets go of the operator's terminal and shell, and of everything open. */
static int
leave(struct err *err)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return err_errno(err, "cannot open /dev/null");
	if (syscall(SYS_close_range, STDERR_FILENO + 1u, VAULT_KEEPER_FD - 1u, 0u) < 0 ||
	    syscall(SYS_close_range, VAULT_KEEPER_FD + 1u, ~0u, 0u) < 0 ||
	    fcntl(VAULT_KEEPER_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(VAULT_KEEPER_FD, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "cannot close descriptors");
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

int
keeper_run(struct keeper *k, struct err *err)
{
	struct pollfd p = { .fd = VAULT_KEEPER_FD, .events = POLLIN };
	int r = leave(err), n;

	if (r < 0)
		return r;
	tell_current(0);
	for (;;) {
		n = poll(&p, 1, wait_ms(k));
		if (n > 0 && !answer(k))
			break;
		for (size_t i = 0; n == 0 && i < k->n; i++)
			if (k->at[i].due <= now())
				renew(&k->at[i], false);
	}
	keeper_free(k);
	return 0;
}

void
keeper_free(struct keeper *k)
{
	while (k->n > 0) {
		k->n--;
		secret_free(k->at[k->n].secret);
		secret_values_free(&k->at[k->n].values);
	}
}
