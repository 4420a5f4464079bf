/* session.h - browser logins, and one-time codes to log in with.
 *
 * All of it is in memory, and ends with the service.  Only hashes of secrets are kept, and a shown
 * secret is compared with all of them in constant time.  NOW is the loop's time, in ms. */
#ifndef CLOISTER_SERVE_SESSION_H
#define CLOISTER_SERVE_SESSION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "serve/serve.h"

#define SESSIONS_MAX 64                 /* beyond them, the least recently used makes room */
#define SESSION_CODES_MAX 16            /* likewise */
#define SESSION_LIFE_MS (12ull * 3600 * 1000)
#define SESSION_IDLE_MS (2ull * 3600 * 1000)
#define SESSION_CODE_MS (2ull * 60 * 1000)
#define SESSION_SECRET_LEN 64           /* digits, of 256 bits */

struct session {
	uint64_t number;                /* 0: unused */
	char who[SERVE_NAME_MAX];
	char csrf[SESSION_SECRET_LEN + 1];
	unsigned char hash[32];
	uint64_t began_ms, used_ms;
};

struct sessions {
	struct session at[SESSIONS_MAX];
	struct session_code {
		bool is_there;
		char who[SERVE_NAME_MAX];
		unsigned char hash[32];
		uint64_t made_ms;
	} codes[SESSION_CODES_MAX];
	uint64_t last;                  /* last number that was assigned */
};

/* A code with which WHO can log in, once.  -EIO: no randomness. */
int session_mint(struct sessions *s, const char *who, uint64_t now,
                 char ret_code[SESSION_SECRET_LEN + 1]);
/* Whether CODE is valid, and whose it is; it becomes invalid. */
bool session_redeem(struct sessions *s, const char *code, uint64_t now, char ret_who[SERVE_NAME_MAX]);

/* *ret_ended is the number of the session that made room, or 0. */
int session_begin(struct sessions *s, const char *who, uint64_t now,
                  char ret_secret[SESSION_SECRET_LEN + 1], const struct session **ret_session,
                  uint64_t *ret_ended);
/* The session of this secret, which counts as used now; NULL: none. */
const struct session *session_find(struct sessions *s, const char *secret, size_t len, uint64_t now);
const struct session *session_get(const struct sessions *s, uint64_t number);  /* NULL: none */
bool session_is_csrf(const struct session *session, const char *shown, size_t len);
void session_end(struct sessions *s, uint64_t number);
/* Ends one session that has expired, and returns its number; 0: none has. */
uint64_t session_expire(struct sessions *s, uint64_t now);
#endif
