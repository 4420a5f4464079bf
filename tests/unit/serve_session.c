/* serve_session.c - sessions of browsers, and one-time codes. */
#include "serve/session.h"

#include <string.h>

#include "test.h"

static struct sessions s;

TEST(session_code)
{
	char code[SESSION_SECRET_LEN + 1], who[SERVE_NAME_MAX];

	memset(&s, 0, sizeof(s));
	CHECK(session_mint(&s, "uid 5", 1000, code) == 0);
	CHECK(strlen(code) == SESSION_SECRET_LEN);
	CHECK(!session_redeem(&s, "", 1000, who));
	CHECK(session_redeem(&s, code, 1000, who));
	CHECK_STR(who, "uid 5");
	CHECK(!session_redeem(&s, code, 1000, who));
	CHECK(session_mint(&s, "uid 5", 1000, code) == 0);
	CHECK(!session_redeem(&s, code, 1000 + SESSION_CODE_MS, who));
	CHECK(!session_redeem(&s, code, 1000, who));
	/* Nobody's hash is zeros. */
	CHECK(session_mint(&s, "uid 5", 1000, code) == 0);
	CHECK(session_redeem(&s, code, 999 + SESSION_CODE_MS, who));
}

static uint64_t
begin(const char *who, uint64_t now, char secret[SESSION_SECRET_LEN + 1], uint64_t *ended)
{
	const struct session *session = NULL;

	CHECK(session_begin(&s, who, now, secret, &session, ended) == 0);
	return session->number;
}

TEST(session_ends)
{
	char secret[SESSION_SECRET_LEN + 1];
	uint64_t ended = 0, number, now = 1000;
	const struct session *found;

	memset(&s, 0, sizeof(s));
	number = begin("token operator", now, secret, &ended);
	CHECK(ended == 0 && number != 0);
	found = session_find(&s, secret, strlen(secret), now);
	CHECK(found != NULL && found->number == number && strcmp(found->csrf, secret) != 0);
	CHECK(session_is_csrf(found, found->csrf, SESSION_SECRET_LEN));
	CHECK(!session_is_csrf(found, found->csrf, SESSION_SECRET_LEN - 1));
	CHECK(!session_is_csrf(found, secret, SESSION_SECRET_LEN));
	CHECK(session_find(&s, secret, strlen(secret) - 1, now) == NULL);
	CHECK(session_find(&s, "", 0, now) == NULL);
	/* As long as it is used it goes on, but not for ever. */
	for (; now < 1000 + SESSION_LIFE_MS; now += SESSION_IDLE_MS - 1) {
		CHECK(session_find(&s, secret, strlen(secret), now) != NULL);
		CHECK(session_expire(&s, now) == 0);
	}
	CHECK(session_find(&s, secret, strlen(secret), now) == NULL);
	CHECK(session_expire(&s, now) == number);
	CHECK(session_expire(&s, now) == 0);
	/* Unused, it ends sooner. */
	number = begin("token operator", now, secret, &ended);
	CHECK(session_find(&s, secret, strlen(secret), now + SESSION_IDLE_MS) == NULL);
	CHECK(session_find(&s, secret, strlen(secret), now) != NULL);
	session_end(&s, number);
	CHECK(session_find(&s, secret, strlen(secret), now) == NULL && session_get(&s, number) == NULL);
}

TEST(session_room)
{
	char secret[SESSION_SECRET_LEN + 1];
	uint64_t ended = 0, first, second;

	memset(&s, 0, sizeof(s));
	first = begin("a", 1, secret, &ended);
	CHECK(session_find(&s, secret, strlen(secret), 5000) != NULL);
	second = begin("b", 2, secret, &ended);
	for (uint64_t i = 2; i < SESSIONS_MAX; i++) {
		(void)begin("c", 3 + i, secret, &ended);
		CHECK(ended == 0);
	}
	(void)begin("d", 6000, secret, &ended);
	CHECK(ended == second && session_get(&s, first) != NULL && session_get(&s, second) == NULL);
}
