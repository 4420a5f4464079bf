/* tools_session.c - sessions of the agent: `initialize` begins one, DELETE or an hour without requests ends it. */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "base/own.h"
#include "proc/tools/tools_worker.h"

static struct session *sessions;
static size_t n_sessions;
static struct loop_timer idle;

static bool
is_idle(const struct session *s, uint64_t now)
{
	return now - s->used_ms > GATEWAY_SESSION_IDLE_S * 1000ull && s->calls == NULL && s->listener == NULL;
}

static void
end_idle(void *arg)
{
	uint64_t now = loop_now_ms();
	struct session *s, *next;

	(void)arg;
	for (s = sessions; s != NULL; s = next) {
		next = s->next;
		if (is_idle(s, now))
			gateway_session_end(s);
	}
	if (sessions != NULL)
		loop_set_timer(gateway_loop, &idle, GATEWAY_SESSION_IDLE_S * 1000 / 4);
}

/* The least recently used one. */
static void
make_room(void)
{
	struct session *oldest = sessions;

	for (struct session *s = sessions; s != NULL; s = s->next)
		if (s->used_ms <= oldest->used_ms)
			oldest = s;
	if (n_sessions >= GATEWAY_SESSIONS_MAX && oldest != NULL)
		gateway_session_end(oldest);
}

struct session *
gateway_session_new(void)
{
	struct session *s = calloc(1, sizeof(*s));
	unsigned char random[GATEWAY_ID_LEN / 2];

	if (s == NULL || getrandom(random, sizeof(random), 0) != sizeof(random)) {
		free(s);
		return NULL;
	}
	make_room();
	codec_hex(random, sizeof(random), s->id);
	s->used_ms = loop_now_ms();
	s->next = sessions;
	sessions = s;
	n_sessions++;
	idle.due = end_idle;
	if (idle.at_ms == 0)
		loop_set_timer(gateway_loop, &idle, GATEWAY_SESSION_IDLE_S * 1000 / 4);
	return s;
}

struct session *
gateway_session_find(const char *id)
{
	if (strlen(id) != GATEWAY_ID_LEN)
		return NULL;
	for (struct session *s = sessions; s != NULL; s = s->next)
		if (CRYPTO_memcmp(s->id, id, GATEWAY_ID_LEN) == 0) {
			s->used_ms = loop_now_ms();
			return s;
		}
	return NULL;
}

static void
let_go(struct instance *i, void *arg)
{
	(void)arg;
	reverse_drop_instance(i);
	instance_end(i);
	i->session = NULL;
}

void
gateway_session_end(struct session *s)
{
	struct session **at = &sessions;

	while (s->calls != NULL)
		call_free(s->calls);
	instance_each(s, let_go, NULL);
	while (s->channels != NULL)
		channel_free(s->channels);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	n_sessions--;
	json_decref(s->abilities);
	json_decref(s->client);
	free(s->level);
	free(s);
}

struct instance *
gateway_session_instance(struct session *s, size_t i)
{
	if (s->instances[i] == NULL)
		s->instances[i] = instance_new(s, i, NULL);
	return s->instances[i];
}

void
gateway_session_tell(struct session *s, const struct instance *i, json_t *message)
{
	struct channel *to = s->listener;

	for (struct call *c = s->calls; c != NULL; c = c->next)
		if (c->instance == i && c->ask != NULL) {
			to = c->channel;
			break;
		}
	if (to != NULL)
		(void)channel_send(to, message);
	else
		json_decref(message);
}
