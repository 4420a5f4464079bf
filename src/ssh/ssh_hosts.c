/* ssh_hosts.c - see ssh_hosts.h. */
#include "ssh/ssh_hosts.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sign/scheme_parts.h"

#define SHA1_LEN 20

/* ---- lines ---- */

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct http_text
next_word(struct http_text *rest)
{
	struct http_text word;

	while (rest->len > 0 && is_blank(rest->at[0])) {
		rest->at++;
		rest->len--;
	}
	word = (struct http_text){ rest->at, 0 };
	while (word.len < rest->len && !is_blank(rest->at[word.len]))
		word.len++;
	rest->at += word.len;
	rest->len -= word.len;
	return word;
}

static struct http_text
next_line(struct http_text *rest)
{
	const char *end = memchr(rest->at, '\n', rest->len);
	struct http_text line = { rest->at, end != NULL ? (size_t)(end - rest->at) : rest->len };
	size_t taken = line.len + (end != NULL);

	rest->at += taken;
	rest->len -= taken;
	if (line.len > 0 && line.at[line.len - 1] == '\r')
		line.len--;
	return line;
}

bool
ssh_hosts_next(struct http_text *rest, struct ssh_hosts_line *ret_line)
{
	while (rest->len > 0) {
		struct http_text line = next_line(rest), names = next_word(&line);
		bool revoked = http_text_is(names, "@revoked");

		if (line.len > SSH_HOSTS_LINE_MAX || names.len == 0 || names.at[0] == '#' ||
		    (names.at[0] == '@' && !revoked))
			continue;
		if (revoked)
			names = next_word(&line);
		if (names.len == 0 || line.len == 0)
			continue;
		*ret_line = (struct ssh_hosts_line){ .revoked = revoked, .names = names, .key = line };
		return true;
	}
	return false;
}

/* ---- names ---- */

void
ssh_hosts_name(const char *host, uint16_t port, char ret_name[SSH_HOST_MAX])
{
	snprintf(ret_name, SSH_HOST_MAX, port == SSH_PORT ? "%.256s" : "[%.256s]:%u", host, port);
}

/* "|1|salt|hash": HMAC-SHA1 of the name. */
static bool
match_hashed(struct http_text hashed, const char *name)
{
	unsigned char salt[SHA1_LEN], want[SHA1_LEN], have[EVP_MAX_MD_SIZE];
	size_t n_salt = 0, n_want = 0;
	unsigned n = 0;
	struct http_text first = { hashed.at + 3, 0 }, second;
	const char *bar = memchr(first.at, '|', hashed.len - 3);

	if (bar == NULL)
		return false;
	first.len = (size_t)(bar - first.at);
	second = (struct http_text){ bar + 1, hashed.len - 3 - first.len - 1 };
	return scheme_decode(SIGN_BASE64, first, salt, sizeof(salt), &n_salt) == 0 &&
	       scheme_decode(SIGN_BASE64, second, want, sizeof(want), &n_want) == 0 &&
	       n_salt == SHA1_LEN && n_want == SHA1_LEN &&
	       HMAC(EVP_sha1(), salt, SHA1_LEN, (const unsigned char *)name, strlen(name), have,
	            &n) != NULL && n == SHA1_LEN && memcmp(want, have, SHA1_LEN) == 0;
}

/* "*" is any run of characters, "?" any one; time is bounded by the product of both lengths. */
static bool
match_pattern(struct http_text pattern, const char *name)
{
	size_t p = 0, star = SIZE_MAX, len = strlen(name), n = 0, mark = 0;

	while (n < len) {
		if (p < pattern.len && pattern.at[p] == '*') {
			star = p++;
			mark = n;
		} else if (p < pattern.len && (pattern.at[p] == '?' ||
		           tolower((unsigned char)pattern.at[p]) == tolower((unsigned char)name[n]))) {
			p++;
			n++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			n = ++mark;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.at[p] == '*')
		p++;
	return p == pattern.len;
}

static bool
next_name(struct http_text *names, struct http_text *ret_name)
{
	const char *comma;

	if (names->len == 0)
		return false;
	comma = memchr(names->at, ',', names->len);
	*ret_name = (struct http_text){ names->at, comma != NULL ? (size_t)(comma - names->at) :
	                                                           names->len };
	names->at += ret_name->len + (comma != NULL);
	names->len -= ret_name->len + (comma != NULL);
	return true;
}

bool
ssh_hosts_match(struct http_text names, const char *name)
{
	struct http_text one;
	bool found = false;

	if (names.len > 3 && memcmp(names.at, "|1|", 3) == 0)
		return match_hashed(names, name);
	while (next_name(&names, &one)) {
		bool negated = one.len > 0 && one.at[0] == '!';

		if (negated) {
			one.at++;
			one.len--;
		}
		if (!match_pattern(one, name))
			continue;
		if (negated)
			return false;
		found = true;
	}
	return found;
}

static bool
take_port(struct http_text name, char *host, uint16_t *ret_port)
{
	const char *end = memchr(name.at, ']', name.len);
	char digits[6] = "", *stop;
	size_t len;
	unsigned long port;

	if (end == NULL || end[0] != ']' || end + 1 >= name.at + name.len || end[1] != ':')
		return false;
	len = (size_t)(name.at + name.len - end - 2);
	if (len == 0 || len >= sizeof(digits))
		return false;
	memcpy(digits, end + 2, len);
	port = strtoul(digits, &stop, 10);
	if (*stop != '\0' || digits[0] < '0' || digits[0] > '9' || port == 0 || port > 65535)
		return false;
	len = (size_t)(end - name.at - 1);
	memcpy(host, name.at + 1, len);
	host[len] = '\0';
	*ret_port = (uint16_t)port;
	return len > 0;
}

bool
ssh_hosts_plain(struct http_text *names, char ret_host[SSH_HOST_MAX], uint16_t *ret_port)
{
	struct http_text one;

	while (next_name(names, &one)) {
		if (one.len == 0 || one.len >= SSH_HOST_MAX || one.at[0] == '!' || one.at[0] == '|' ||
		    memchr(one.at, '*', one.len) != NULL || memchr(one.at, '?', one.len) != NULL ||
		    memchr(one.at, '\0', one.len) != NULL)
			continue;
		if (one.at[0] == '[') {
			if (take_port(one, ret_host, ret_port))
				return true;
			continue;
		}
		memcpy(ret_host, one.at, one.len);
		ret_host[one.len] = '\0';
		*ret_port = SSH_PORT;
		return true;
	}
	return false;
}
