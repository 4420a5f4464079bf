/* mcp_session.c - HTTP sessions of the older revisions: `initialize` begins one, DELETE or an hour
 * without requests ends it. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"
#include "proc/mcp/mcp_proc.h"

static struct session *sessions;        /* the most recently used are first */
static size_t n_sessions;
static struct loop_timer idle;

static void
end_idle(void *arg)
{
	uint64_t now = loop_now_ms();
	struct session *s, *next;

	(void)arg;
	for (s = sessions; s != NULL; s = next) {
		next = s->next;
		if (now - s->used_ms > SESSION_IDLE_S * 1000 && s->peer.n_calls == 0)
			mcp_session_end(s);
	}
	if (sessions != NULL)
		loop_set_timer(mcp_loop, &idle, SESSION_IDLE_S * 1000 / 4);
}

/* Among those with TOKEN, or all. */
static void
end_oldest(const char *token)
{
	struct session *oldest = NULL;

	for (struct session *s = sessions; s != NULL; s = s->next)
		if ((token == NULL || strcmp(s->token, token) == 0) &&
		    (oldest == NULL || s->used_ms <= oldest->used_ms))
			oldest = s;
	if (oldest != NULL)
		mcp_session_end(oldest);
}

static void
make_room(const char *token)
{
	size_t n = 0;

	for (struct session *s = sessions; s != NULL; s = s->next)
		n += strcmp(s->token, token) == 0;
	if (token[0] != '\0' && n >= SESSIONS_GUEST_MAX)
		end_oldest(token);
	else if (n_sessions == SESSIONS_MAX)
		end_oldest(NULL);
}

struct session *
mcp_session_new(const char *token)
{
	struct session *s = calloc(1, sizeof(*s));
	unsigned char random[SESSION_ID_LEN / 2];

	if (s == NULL || getrandom(random, sizeof(random), 0) != sizeof(random)) {
		free(s);
		return NULL;
	}
	make_room(token);
	snprintf(s->token, sizeof(s->token), "%s", token);
	codec_hex(random, sizeof(random), s->id);
	s->used_ms = loop_now_ms();
	s->next = sessions;
	sessions = s;
	n_sessions++;
	if (idle.at_ms == 0) {
		idle.due = end_idle;
		loop_set_timer(mcp_loop, &idle, SESSION_IDLE_S * 1000 / 4);
	}
	return s;
}

struct session *
mcp_session_find(const char *id, const char *token)
{
	if (strlen(id) != SESSION_ID_LEN)
		return NULL;
	for (struct session *s = sessions; s != NULL; s = s->next)
		if (CRYPTO_memcmp(s->id, id, SESSION_ID_LEN) == 0 && strcmp(s->token, token) == 0) {
			s->used_ms = loop_now_ms();
			return s;
		}
	return NULL;
}

void
mcp_session_end(struct session *s)
{
	struct session **at = &sessions;

	while (s->streams != NULL)
		stream_free(s->streams);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	n_sessions--;
	mcp_peer_leave(&s->peer);
	free(s);
}
