/* secrets_keys.c - recognises private keys in their formats, and tokens that have to be decoded
 * first. */
#include "inspect/secrets_parts.h"

#include <string.h>

#include "base/own.h"
#include "credential/shape.h"
#include "inspect/one_of.h"

#define PEM_LABEL_MAX 24        /* "ENCRYPTED ", "OPENSSH ", "PGP ", ... */
#define PEM_HEADER_MAX 256      /* lines such as "DEK-Info: AES-256-CBC,..." */
#define PEM_KEY_MIN 64          /* characters: an Ed25519 key has no more */
#define PEM_QUOTING_MAX 128     /* bytes between two lines */
#define PART_MAX 1024           /* of a JWT, in base64 */
#define CLAIMS_MAX 768

static const unsigned char *
find(const unsigned char *at, size_t len, const char *text)
{
	return memmem(at, len, text, strlen(text));
}

/* ---- PEM ---- */

/* Whether "-----BEGIN SOMETHING " precedes "PRIVATE KEY". */
static bool
begins_pem(const struct secrets_view *view, size_t mark)
{
	size_t pos = mark;

	while (pos > 0 && mark - pos < PEM_LABEL_MAX) {
		unsigned char c = view->at[pos - 1];

		if (c == '-')
			break;
		if (!shape_class_has('A', c) && c != ' ' && c != '+')
			return false;
		pos--;
	}
	return mark - pos >= 6 && pos >= 4 && memcmp(view->at + pos - 4, "----", 4) == 0 &&
	       find(view->at + pos, mark - pos, "BEGIN") != NULL;
}

/* Skip the text between the lines of a key that is quoted in a program. */
static size_t
skip_quoting(const struct secrets_view *view, size_t pos)
{
	size_t end = pos + PEM_QUOTING_MAX;

	while (pos < view->len && pos < end) {
		size_t n = secrets_line_end(view, pos);

		if (n == 0 && is_one_of(view->at[pos], " \t\"'`+,;|#*>&\\"))
			n = 1;
		if (n == 0)
			break;
		pos += n;
	}
	return pos;
}

/* Skip the lines "Name: value" that old keys have before their base64. */
static size_t
skip_headers(const struct secrets_view *view, size_t pos)
{
	size_t end = pos + PEM_HEADER_MAX;

	while (pos < view->len && pos < end) {
		size_t n = 0;

		while (n < 32 && pos + n < view->len && shape_class_has('u', view->at[pos + n]))
			n++;
		if (n < 4 || pos + n >= view->len || view->at[pos + n] != ':')
			return pos;
		while (pos < view->len && pos < end && secrets_line_end(view, pos) == 0)
			pos++;
		pos = skip_quoting(view, pos);
	}
	return pos;
}

/* Collect the minimum number of base64 characters of a key, if they are not all alike. */
static size_t
gather_base64(const struct secrets_view *view, size_t pos, char text[PEM_KEY_MIN])
{
	size_t n = 0, end = pos + 4 * PEM_KEY_MIN;

	while (n < PEM_KEY_MIN && pos < view->len && pos < end) {
		if (shape_class_has('x', view->at[pos])) {
			text[n++] = (char)view->at[pos++];
		} else {
			size_t next = skip_quoting(view, pos);

			if (next == pos)
				break;
			pos = next;
		}
	}
	return n;
}

static bool
has_variety(const char *text, size_t len)
{
	bool seen[256] = {0};
	size_t distinct = 0;

	for (size_t i = 0; i < len; i++) {
		distinct += !seen[(unsigned char)text[i]];
		seen[(unsigned char)text[i]] = true;
	}
	return distinct >= 16;
}

/* The header alone occurs in many programs and documents: the key must follow. */
bool
secrets_check_pem(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	char text[PEM_KEY_MIN];
	size_t pos = hit->body;

	if (!begins_pem(view, hit->mark))
		return false;
	if (view->len - pos >= 6 && find(view->at + pos, 6, "BLOCK") == view->at + pos + 1)
		pos += 6;
	while (pos < view->len && pos < hit->body + 16 &&
	       is_one_of(view->at[pos], "- "))
		pos++;
	pos = skip_headers(view, skip_quoting(view, pos));
	if (gather_base64(view, pos, text) < PEM_KEY_MIN || !has_variety(text, PEM_KEY_MIN))
		return false;
	/* A DER sequence, "openssh-key-v1", or an OpenPGP secret-key packet. */
	return text[0] == 'M' || text[0] == 'l' || text[0] == 'x' ||
	       memcmp(text, "b3BlbnNzaC1rZXktdjE", 19) == 0;
}

/* In the file's own form, with the number of lines, and not as a program prints it. */
bool
secrets_check_putty(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t len = view->len - hit->body;
	const unsigned char *lines;

	if (len > SECRETS_SEEN_MAX)
		len = SECRETS_SEEN_MAX;
	lines = find(view->at + hit->body, len, "Public-Lines: ");
	return lines != NULL && (size_t)(lines - view->at) + 14 < view->len &&
	       shape_class_has('d', lines[14]) &&
	       find(view->at + hit->body, len, "Encryption: ") != NULL;
}

/* ---- Curve25519 and JWK ---- */

/* A private scalar of Curve25519 has these five bits fixed. */
bool
secrets_check_wireguard(const struct secrets_hit *hit)
{
	unsigned char key[32];

	return secrets_base64_decode(hit->view, hit->body, key, sizeof(key)) == sizeof(key) &&
	       (key[0] & 7) == 0 && (key[31] & 0xc0) == 0x40;
}

/* "name" : "value" with a value of at least MIN characters of base64url. */
static bool
has_member(const unsigned char *at, size_t len, const char *name, size_t min)
{
	const unsigned char *p = at, *end = at + len;

	while ((p = find(p, (size_t)(end - p), name)) != NULL) {
		size_t n = 0;

		p += strlen(name);
		while (p < end && is_one_of(*p, " \t\r\n\\:\""))
			p++;
		while (p + n < end && shape_class_has('u', p[n]))
			n++;
		if (n >= min && secrets_looks_random(p, n))
			return true;
	}
	return false;
}

/* A JSON web key is private if it has a "d". */
bool
secrets_check_jwk(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t from = hit->mark > 512 ? hit->mark - 512 : 0;
	size_t to = view->len - hit->mark > SECRETS_SEEN_MAX ? hit->mark + SECRETS_SEEN_MAX
	                                                     : view->len;

	return has_member(view->at + from, to - from, "\"d\"", 42);
}

/* ---- JWT ---- */

/* Decode the LEN bytes of base64url from POS on. */
static size_t
decode_part(const struct secrets_view *view, size_t pos, size_t len,
            unsigned char out[CLAIMS_MAX])
{
	struct secrets_view part = { view->at + pos, len };

	return secrets_base64_decode(&part, 0, out, CLAIMS_MAX);
}

static size_t
part_len(const struct secrets_view *view, size_t pos)
{
	size_t n = 0;

	while (n < PART_MAX && pos + n < view->len && shape_class_has('u', view->at[pos + n]))
		n++;
	return n;
}

/* A signed token whose claims mark it as a service's permanent key: a service account of
 * Kubernetes, or the one role of Supabase with all rights. */
bool
secrets_check_jwt(const struct secrets_hit *hit)
{
	static const char *const claims[] = {
		"\"kubernetes/serviceaccount", "\"kubernetes.io\"", "\"kubernetes.io/",
		"\"service_role\"",
	};
	const struct secrets_view *view = hit->view;
	unsigned char text[CLAIMS_MAX];
	size_t head = part_len(view, hit->mark), pos = hit->mark + head + 1, body;

	if (pos >= view->len || view->at[pos - 1] != '.')
		return false;
	body = decode_part(view, hit->mark, head, text);
	if (find(text, body, "\"alg\"") == NULL || find(text, body, "\"none\"") != NULL)
		return false;
	body = decode_part(view, pos, part_len(view, pos), text);
	for (size_t i = 0; i < ARRAY_LEN(claims); i++)
		if (find(text, body, claims[i]) != NULL)
			return true;
	return false;
}

/* ---- Docker ---- */

static bool
is_login(const unsigned char *text, size_t len)
{
	const unsigned char *colon = memchr(text, ':', len);
	size_t n;

	if (colon == NULL || colon == text)
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	n = len - (size_t)(colon + 1 - text);
	return n >= 12 && secrets_looks_random(colon + 1, n);
}

/* "auths": {"HOST": {"auth": "BASE64 OF NAME:PASSWORD"}} */
bool
secrets_check_docker(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t end = view->len - hit->body > SECRETS_SEEN_MAX ? hit->body + SECRETS_SEEN_MAX
	                                                      : view->len;
	const unsigned char *p = view->at + hit->body;

	while ((p = find(p, (size_t)(view->at + end - p), "\"auth\"")) != NULL) {
		unsigned char text[256];
		size_t pos, n;

		p += 6;
		pos = (size_t)(p - view->at);
		while (pos < end && is_one_of(view->at[pos], " \t\r\n\\:\""))
			pos++;
		n = secrets_base64_decode(view, pos, text, sizeof(text));
		if (is_login(text, n))
			return true;
	}
	return false;
}
