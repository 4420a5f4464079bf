/* cell_secrets.c - see cell_secrets.h. */
#include "cell/cell_secrets.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_series.h"
#include "cell/cell_spec.h"

#define EVERY_MS (5 * CELL_ANSWER_MS)   /* for hundreds of cells on a busy machine */

/* ---- listing ---- */

void
cell_secrets_free(struct cell_secret *secrets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(secrets[i].name);
		free(secrets[i].scheme);
		strv_free(secrets[i].hosts);
	}
	free(secrets);
}

/* TEXT is "NAME SCHEME HOST...". */
static int
take_words(struct cell_secret *s, const char *text)
{
	OWN(freep) char *copy = strdup(text);
	char *rest = copy, *word;
	size_t n = 0;

	s->hosts = calloc(strlen(text) + 1, sizeof(char *));
	if (copy == NULL || s->hosts == NULL)
		return -ENOMEM;
	for (; (word = strsep(&rest, " ")) != NULL; n++) {
		char **at = n == 0 ? &s->name : n == 1 ? &s->scheme : &s->hosts[n - 2];

		*at = strdup(word);
		if (*at == NULL)
			return -ENOMEM;
	}
	return n >= 2 ? 0 : -EBADMSG;
}

static int
take_secret(struct buf *b, struct cell_secret *s)
{
	const char *text;
	uint32_t revoked;

	if (buf_get_str(b, &text) < 0 || buf_get_u32(b, &revoked) < 0 || buf_get_u64(b, &s->used) < 0)
		return -EBADMSG;
	s->revoked = revoked != 0;
	return take_words(s, text);
}

int
cell_list_secrets(int socket, struct cell_secret **ret_secrets, size_t *ret_n, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message answer = { .fds = { -1, -1, -1, -1 } };
	OWN(buf_free) struct buf message;
	struct cell_secret *secrets;
	uint32_t n, i = 0;
	int r;

	cell_steer_put(&message, NULL, &(struct steer_request){ .verb = VERB_SECRETS });
	r = cell_steer(socket, &message, NULL, 0, &answer, err);
	if (r < 0)
		return r;
	if (buf_get_u32(&answer.body, &n) < 0 || n > CELL_SECRETS_MAX)
		return err_set(err, EBADMSG, "the cell's supervisor is of another version");
	secrets = calloc((size_t)n + 1, sizeof(*secrets));
	r = secrets == NULL ? -ENOMEM : 0;
	while (r == 0 && i < n)
		r = take_secret(&answer.body, &secrets[i++]);
	if (r < 0) {
		cell_secrets_free(secrets, i);
		return err_set(err, -r, "the secrets of the cell cannot be read");
	}
	*ret_secrets = secrets;
	*ret_n = n;
	return 0;
}

/* ---- one cell ---- */

/* QUIET is for VERB_REVOKE only. */
static void
put_secret(struct buf *message, enum steer_verb verb, const struct cell_steer_who *who, const char *name,
           bool quiet)
{
	cell_steer_put(message, who, &(struct steer_request){ .verb = verb, .text = { name }, .n = { quiet } });
}

int
cell_revoke(int socket, const struct cell_steer_who *who, const char *name, bool quiet,
            struct err *err)
{
	OWN(buf_free) struct buf message;

	put_secret(&message, VERB_REVOKE, who, name, quiet);
	return cell_steer(socket, &message, NULL, 0, NULL, err);
}

int
cell_rotate(int socket, const struct cell_steer_who *who, const char *name, int value,
            struct err *err)
{
	OWN(buf_free) struct buf message;

	put_secret(&message, VERB_ROTATE, who, name, false);
	return cell_steer(socket, &message, &value, 1, NULL, err);
}

int
cell_set_ttl(int socket, const struct cell_steer_who *who, uint64_t ms, struct err *err)
{
	OWN(buf_free) struct buf message;

	cell_steer_put(&message, who, &(struct steer_request){ .verb = VERB_TTL, .n = { ms } });
	return cell_steer(socket, &message, NULL, 0, NULL, err);
}

/* ---- every cell ---- */

static void
note(struct cell_every *every, int r, const struct err *err)
{
	/* A cell that ends meanwhile sends nothing any more. */
	if (r == 0) {
		every->n++;
	} else if (r == -ENOENT) {
		every->without++;
	} else if (r != -ESRCH) {
		if (every->failed++ == 0)
			every->first = *err;
	}
}

/* A cell that cannot be reached, or hung up, has ended only if its lock is free. */
static int
await(int runtime, const struct cell_entry *entry, int socket, int64_t deadline, struct err *err)
{
	int r = io_is_readable(socket, deadline) ? cell_steer_await(socket, NULL, err) : -EPIPE;

	if (r != -EPIPE)
		return r;
	return cell_is_alive(runtime, entry) ? cell_is_silent(entry, err) : -ESRCH;
}

struct asking {
	const struct buf *message;
	int fd;                         /* descriptor to send, or -1 */
	int patience_ms;                /* for all of them together */
};

static void
ask_together(int runtime, const struct cell_entry *entries, size_t n, int *sockets,
             const struct asking *asking, struct cell_every *every)
{
	int64_t deadline;

	for (size_t i = 0; i < n; i++) {
		sockets[i] = cell_connect(runtime, &entries[i], NULL);
		if (sockets[i] >= 0)
			(void)cell_steer_ask(sockets[i], asking->message, &asking->fd, asking->fd >= 0 ? 1 : 0, NULL);
	}
	deadline = io_now_ms() + asking->patience_ms;
	for (size_t i = 0; i < n; i++) {
		struct err why = {0};

		note(every, await(runtime, &entries[i], sockets[i], deadline, &why), &why);
	}
	for (size_t i = 0; i < n; i++)
		closep(&sockets[i]);
}

static int
ask_every(int runtime, const struct asking *asking, struct cell_every *ret_every, struct err *err)
{
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) int *sockets = NULL;
	struct cell_every every = {0};
	size_t n, max = cell_connect_max();
	int r = cell_list(runtime, true, &entries, &n, err);

	if (r < 0)
		return r;
	sockets = calloc(n + 1, sizeof(int));
	if (sockets == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t at = 0; at < n; at += max)
		ask_together(runtime, entries + at, n - at < max ? n - at : max, sockets, asking, &every);
	*ret_every = every;
	return 0;
}

int
cell_revoke_every(int runtime, const struct cell_steer_who *who, const char *name, bool quiet,
                  struct cell_every *ret_every, struct err *err)
{
	const struct cell_steer_who tells = { who->by, who->why, true };
	OWN(buf_free) struct buf message;

	put_secret(&message, VERB_REVOKE, &tells, name, quiet);
	return ask_every(runtime, &(struct asking){ &message, -1, CELL_STEER_S * 1000 }, ret_every, err);
}

int
cell_rotate_every(int runtime, const struct cell_steer_who *who, const char *name, int value,
                  struct cell_every *ret_every, struct err *err)
{
	const struct cell_steer_who tells = { who->by, who->why, true };
	OWN(buf_free) struct buf message;

	put_secret(&message, VERB_ROTATE, &tells, name, false);
	return ask_every(runtime, &(struct asking){ &message, value, CELL_STEER_S * 1000 }, ret_every, err);
}

int
cell_do_every(int runtime, enum steer_verb verb, const struct cell_steer_who *who,
              struct cell_every *ret_every, struct err *err)
{
	const struct cell_steer_who tells = { who->by, who->why, true };
	OWN(buf_free) struct buf message;

	/* First: any cell of theirs that is not listed yet does not start. */
	if (verb == VERB_FREEZE || verb == VERB_THAW)
		(void)cell_series_hold_each(runtime, NULL, verb == VERB_FREEZE);
	cell_steer_put(&message, &tells, &(struct steer_request){ .verb = verb });
	return ask_every(runtime, &(struct asking){ &message, -1, EVERY_MS }, ret_every, err);
}
