/* session.c - see session.h. */
#include "serve/session.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/codec.h"

/* 256 bits, in digits. */
static int
make_secret(char ret_text[SESSION_SECRET_LEN + 1])
{
	unsigned char random[SESSION_SECRET_LEN / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	codec_hex(random, sizeof(random), ret_text);
	OPENSSL_cleanse(random, sizeof(random));
	return 0;
}

static void
hash_of(const char *text, size_t len, unsigned char ret_hash[SHA256_DIGEST_LENGTH])
{
	SHA256((const unsigned char *)text, len, ret_hash);
}

int
session_mint(struct sessions *s, const char *who, uint64_t now, char ret_code[SESSION_SECRET_LEN + 1])
{
	struct session_code *place = &s->codes[0];

	for (size_t i = 0; i < SESSION_CODES_MAX && place->is_there; i++)
		if (!s->codes[i].is_there || s->codes[i].made_ms < place->made_ms)
			place = &s->codes[i];
	if (make_secret(ret_code) < 0)
		return -EIO;
	*place = (struct session_code){ .is_there = true, .made_ms = now };
	snprintf(place->who, sizeof(place->who), "%s", who);
	hash_of(ret_code, strlen(ret_code), place->hash);
	return 0;
}

bool
session_redeem(struct sessions *s, const char *code, uint64_t now, char ret_who[SERVE_NAME_MAX])
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct session_code *found = NULL;

	hash_of(code, strlen(code), hash);
	for (size_t i = 0; i < SESSION_CODES_MAX; i++) {
		struct session_code *at = &s->codes[i];
		bool same = CRYPTO_memcmp(hash, at->hash, sizeof(hash)) == 0;

		if (same && at->is_there)
			found = at;
	}
	if (found == NULL)
		return false;
	found->is_there = false;
	if (now - found->made_ms >= SESSION_CODE_MS)
		return false;
	memcpy(ret_who, found->who, sizeof(found->who));
	return true;
}

int
session_begin(struct sessions *s, const char *who, uint64_t now,
              char ret_secret[SESSION_SECRET_LEN + 1], const struct session **ret_session,
              uint64_t *ret_ended)
{
	struct session *place = &s->at[0];
	char csrf[SESSION_SECRET_LEN + 1];

	for (size_t i = 0; i < SESSIONS_MAX && place->number != 0; i++)
		if (s->at[i].number == 0 || s->at[i].used_ms < place->used_ms)
			place = &s->at[i];
	if (make_secret(ret_secret) < 0 || make_secret(csrf) < 0)
		return -EIO;
	*ret_ended = place->number;
	*place = (struct session){ .number = ++s->last, .began_ms = now, .used_ms = now };
	snprintf(place->who, sizeof(place->who), "%s", who);
	memcpy(place->csrf, csrf, sizeof(csrf));
	hash_of(ret_secret, strlen(ret_secret), place->hash);
	*ret_session = place;
	return 0;
}

static bool
is_over(const struct session *session, uint64_t now)
{
	return now - session->began_ms >= SESSION_LIFE_MS || now - session->used_ms >= SESSION_IDLE_MS;
}

const struct session *
session_find(struct sessions *s, const char *secret, size_t len, uint64_t now)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct session *found = NULL;

	hash_of(secret, len, hash);
	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		bool same = CRYPTO_memcmp(hash, s->at[i].hash, sizeof(hash)) == 0;

		if (same && s->at[i].number != 0 && !is_over(&s->at[i], now))
			found = &s->at[i];
	}
	if (found != NULL)
		found->used_ms = now;
	return found;
}

const struct session *
session_get(const struct sessions *s, uint64_t number)
{
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		if (number != 0 && s->at[i].number == number)
			return &s->at[i];
	return NULL;
}

bool
session_is_csrf(const struct session *session, const char *shown, size_t len)
{
	return len == SESSION_SECRET_LEN && CRYPTO_memcmp(session->csrf, shown, len) == 0;
}

void
session_end(struct sessions *s, uint64_t number)
{
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		if (number != 0 && s->at[i].number == number)
			OPENSSL_cleanse(&s->at[i], sizeof(s->at[i]));
}

uint64_t
session_expire(struct sessions *s, uint64_t now)
{
	for (size_t i = 0; i < SESSIONS_MAX; i++) {
		uint64_t number = s->at[i].number;

		if (number != 0 && is_over(&s->at[i], now)) {
			session_end(s, number);
			return number;
		}
	}
	return 0;
}
