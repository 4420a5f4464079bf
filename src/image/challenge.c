/* challenge.c - see challenge.h. */
#include "image/challenge.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"

/* ---- WWW-Authenticate ---- */

struct reader {
	const char *at, *end;
};

/* A parameter, or a scheme if VALUE is empty and HAS_VALUE is not set. */
struct word {
	char name[64];
	char value[CHALLENGE_REALM_MAX + 1];
	bool has_value;
};

static bool
is_token(char c)
{
	return c > ' ' && c < 0x7f && strchr("()<>@,;:\\\"/[]?={}", c) == NULL;
}

static void
skip(struct reader *r, const char *characters)
{
	while (r->at < r->end && *r->at != '\0' && strchr(characters, *r->at) != NULL)
		r->at++;
}

static int
read_quoted(struct reader *r, char *value, size_t size)
{
	size_t n = 0;

	for (r->at++; r->at < r->end && *r->at != '"'; r->at++) {
		if (*r->at == '\\' && ++r->at == r->end)
			return -EBADMSG;
		if (*r->at < ' ' || *r->at == 0x7f || n + 1 >= size)
			return -EBADMSG;
		value[n++] = *r->at;
	}
	if (r->at == r->end)
		return -EBADMSG;
	r->at++;
	value[n] = '\0';
	return 0;
}

static int
read_token(struct reader *r, char *value, size_t size)
{
	size_t n = 0;

	for (; r->at < r->end && is_token(*r->at); r->at++) {
		if (n + 1 >= size)
			return -EBADMSG;
		value[n++] = *r->at;
	}
	value[n] = '\0';
	return n > 0 ? 0 : -EBADMSG;
}

/* 1: there is one more; 0: the field ends here. */
static int
read_word(struct reader *r, struct word *ret_word)
{
	int result;

	skip(r, " \t,");
	if (r->at == r->end)
		return 0;
	ret_word->value[0] = '\0';
	ret_word->has_value = false;
	result = read_token(r, ret_word->name, sizeof(ret_word->name));
	if (result < 0)
		return result;
	skip(r, " \t");
	if (r->at == r->end || *r->at != '=')
		return 1;
	r->at++;
	skip(r, " \t");
	ret_word->has_value = true;
	if (r->at < r->end && *r->at == '"')
		result = read_quoted(r, ret_word->value, sizeof(ret_word->value));
	else
		result = read_token(r, ret_word->value, sizeof(ret_word->value));
	return result < 0 ? result : 1;
}

static enum challenge_kind
find_scheme(const char *name)
{
	return strcasecmp(name, "Bearer") == 0 ? CHALLENGE_BEARER :
	       strcasecmp(name, "Basic") == 0 ? CHALLENGE_BASIC : CHALLENGE_NONE;
}

static int
take_value(struct challenge *c, const struct word *word)
{
	const struct { const char *name; char *at; size_t max; } places[] = {
		{ "realm", c->realm, CHALLENGE_REALM_MAX }, { "service", c->service, CHALLENGE_WORD_MAX },
		{ "scope", c->scope, CHALLENGE_WORD_MAX },
	};

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (strcasecmp(places[i].name, word->name) != 0)
			continue;
		if (strlen(word->value) > places[i].max)
			return -EBADMSG;
		memcpy(places[i].at, word->value, strlen(word->value) + 1);
	}
	return 0;
}

int
challenge_parse(const char *text, size_t len, struct challenge *ret_challenge, struct err *err)
{
	struct reader r = { text, text + len };
	struct challenge found = {0}, bearer = {0};
	enum challenge_kind kind = CHALLENGE_NONE;
	struct word word;
	int more = len > CHALLENGE_FIELD_MAX ? -EBADMSG : 0;

	while (more == 0 && (more = read_word(&r, &word)) > 0) {
		if (!word.has_value) {
			kind = find_scheme(word.name);
			if (kind > found.kind)
				found.kind = kind;
		}
		more = word.has_value && kind == CHALLENGE_BEARER ? take_value(&bearer, &word) : 0;
	}
	if (more == 0 && found.kind == CHALLENGE_BEARER && bearer.realm[0] == '\0')
		more = -EBADMSG;
	if (more < 0)
		return err_set(err, EBADMSG, "the registry's WWW-Authenticate is malformed");
	if (found.kind == CHALLENGE_BEARER) {
		found = bearer;
		found.kind = CHALLENGE_BEARER;
	}
	*ret_challenge = found;
	return 0;
}

/* ---- where a token is fetched ---- */

bool
challenge_is_loopback(const char *name)
{
	static const char local[] = "localhost";
	size_t len = strlen(name), n = sizeof(local) - 1;
	struct in6_addr six;
	struct in_addr four;

	if (inet_pton(AF_INET, name, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	if (inet_pton(AF_INET6, name, &six) == 1)
		return IN6_IS_ADDR_LOOPBACK(&six);
	return len >= n && strcasecmp(name + len - n, local) == 0 && (len == n || name[len - n - 1] == '.');
}

static bool
is_address(const char *host)
{
	unsigned char bytes[16];

	return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static int
read_host(const char *at, size_t len, struct challenge_url *url)
{
	bool six = len > 1 && at[0] == '[' && at[len - 1] == ']';

	at += six ? 1 : 0;
	len -= six ? 2 : 0;
	if (len == 0 || len > CHALLENGE_HOST_MAX)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)at[i]) && (six ? at[i] != ':' && at[i] != '.' : strchr("-._", at[i]) == NULL))
			return -EINVAL;
		url->host[i] = (char)tolower((unsigned char)at[i]);
	}
	url->host[len] = '\0';
	return !six || strchr(url->host, ':') != NULL ? 0 : -EINVAL;
}

int
challenge_parse_url(const char *url, struct challenge_url *ret_url)
{
	struct challenge_url found = { .is_tls = strncasecmp(url, "https://", 8) == 0 };
	const char *at = url + (found.is_tls ? 8 : 7), *colon;
	size_t len;
	uint64_t port;

	if (!found.is_tls && strncasecmp(url, "http://", 7) != 0)
		return -EINVAL;
	for (const char *c = url; *c != '\0'; c++)
		if (*c <= ' ' || *c >= 0x7f || strchr("\\#", *c) != NULL)
			return -EINVAL;
	len = strcspn(at, "/?");
	if (memchr(at, '@', len) != NULL)
		return -EINVAL;
	colon = memrchr(at, ':', len);
	found.port = found.is_tls ? 443 : 80;
	if (colon != NULL && memchr(colon, ']', len - (size_t)(colon - at)) == NULL) {
		char digits[8] = "";
		size_t n = len - (size_t)(colon + 1 - at);

		if (n >= sizeof(digits))
			return -EINVAL;
		memcpy(digits, colon + 1, n);
		if (num_parse_count(digits, 1, UINT16_MAX, &port, NULL) < 0)
			return -EINVAL;
		found.port = (unsigned)port;
		len = (size_t)(colon - at);
	}
	if (read_host(at, len, &found) < 0)
		return -EINVAL;
	*ret_url = found;
	return 0;
}

/* registry.example.com and auth.example.com, or example.com; but not a.com and b.com. */
static bool
is_related(const char *registry, const char *realm)
{
	const char *domain = strchr(registry, '.');
	size_t len = strlen(realm), n;

	if (is_address(registry) || is_address(realm) || domain == NULL || strchr(domain + 1, '.') == NULL)
		return false;
	n = strlen(++domain);
	return len >= n && strcmp(realm + len - n, domain) == 0 && (len == n || realm[len - n - 1] == '.');
}

int
challenge_check_realm(const char *realm, const struct challenge_url *registry, bool plain,
                      const char *granted, bool *ret_trusted, struct err *err)
{
	struct challenge_url url;
	bool same;

	if (challenge_parse_url(realm, &url) < 0)
		return err_set(err, EBADMSG, "the registry names '%.200s' for tokens, which is not an address", realm);
	same = strcmp(url.host, registry->host) == 0;
	if (!url.is_tls && !(plain && same) && !(challenge_is_loopback(url.host) && challenge_is_loopback(registry->host)))
		return err_set(err, EPERM, "the registry wants tokens to be fetched without TLS, from '%.200s'", realm);
	*ret_trusted = same || is_related(registry->host, url.host) ||
	               (granted != NULL && strcasecmp(granted, url.host) == 0);
	return 0;
}
