/* secrets_check.c - verifies checksums and other signs that a text is a real token. */
#include "inspect/secrets_parts.h"

#include <string.h>

#include "credential/shape.h"
#include "inspect/one_of.h"

#define NEAR 512                /* bytes within which related values are found */

/* ---- checksums ---- */

static uint32_t
bech32_step(uint32_t sum, uint32_t value)
{
	static const uint32_t generator[] = {
		0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3,
	};
	uint32_t top = sum >> 25;

	sum = (sum & 0x1ffffff) << 5 ^ value;
	for (int i = 0; i < 5; i++)
		if ((top >> i & 1) != 0)
			sum ^= generator[i];
	return sum;
}

static unsigned char
to_lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

/* BIP 173; the mark is the human-readable part and the "1" after it. */
bool
secrets_check_bech32(const struct secrets_hit *hit)
{
	static const char digits[] = "qpzry9x8gf2tvdw0s3jn54khce6mua7l";
	const unsigned char *at = hit->view->at;
	uint32_t sum = 1;

	for (size_t i = hit->mark; i < hit->body - 1; i++)
		sum = bech32_step(sum, to_lower(at[i]) >> 5);
	sum = bech32_step(sum, 0);
	for (size_t i = hit->mark; i < hit->body - 1; i++)
		sum = bech32_step(sum, to_lower(at[i]) & 31);
	for (size_t i = hit->body; i < hit->end; i++) {
		const char *digit = strchr(digits, to_lower(at[i]));

		if (digit == NULL || *digit == '\0')
			return false;
		sum = bech32_step(sum, (uint32_t)(digit - digits));
	}
	return sum == 1;
}

/* ---- runs of characters ---- */

static size_t
run_forward(const struct secrets_view *view, size_t pos, char class, size_t max)
{
	size_t n = 0;

	while (n < max && pos + n < view->len && shape_class_has(class, view->at[pos + n]))
		n++;
	return n;
}

static size_t
run_backward(const struct secrets_view *view, size_t pos, char class, size_t max)
{
	size_t n = 0;

	while (n < max && n < pos && shape_class_has(class, view->at[pos - n - 1]))
		n++;
	return n;
}

/* ---- AWS ---- */

static bool
is_aws_id(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	const unsigned char *id = view->at + hit->body;
	bool seen[256] = {0};
	size_t distinct = 0;

	if (hit->end < view->len && shape_class_has('u', view->at[hit->end]))
		return false;
	for (size_t i = 0; i < 16; i++) {
		if (is_one_of(id[i], "0189"))
			return false;
		distinct += !seen[id[i]];
		seen[id[i]] = true;
	}
	return distinct >= 7 && memmem(id, 16, "EXAMPLE", 7) == NULL;
}

/* 40 separate characters of base64 from *POS on; a hash in hex does not count. */
static bool
is_aws_secret(const struct secrets_view *view, size_t *pos)
{
	unsigned char text[41];
	bool hex = true;

	if (*pos > 0 && shape_class_has('x', view->at[*pos - 1]) &&
	    !secrets_left_edge(view, *pos))
		return false;
	if (secrets_take(view, pos, 'x', text, sizeof(text)) != 40)
		return false;
	for (size_t i = 0; i < 40; i++)
		hex = hex && shape_class_has('H', text[i]);
	return !hex && (*pos >= view->len || view->at[*pos] != '=') &&
	       secrets_looks_random(text, 40);
}

/* An id in the scope of a signature is public: every presigned link has one. */
bool
secrets_check_aws_id(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t left = view->len - hit->end;
	const unsigned char *next = view->at + hit->end;

	if (!is_aws_id(hit))
		return false;
	if (left >= 1 && next[0] == '/')
		return secrets_check_aws_pair(hit);
	if (left >= 3 && (memcmp(next, "%2F", 3) == 0 || memcmp(next, "%2f", 3) == 0))
		return secrets_check_aws_pair(hit);
	return true;
}

bool
secrets_check_aws_pair(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t from = hit->mark > NEAR ? hit->mark - NEAR : 0;
	size_t to = view->len - hit->end > NEAR ? hit->end + NEAR : view->len;

	if (!is_aws_id(hit))
		return false;
	while (from + 40 <= to) {
		if (is_aws_secret(view, &from))
			return true;
		from += run_forward(view, from, 'x', SECRETS_SEEN_MAX) + 1;
	}
	return false;
}

/* name = value, "name": "value", name='value', <name>value. */
bool
secrets_check_aws_named(const struct secrets_hit *hit)
{
	size_t pos = hit->body;

	for (size_t n = 0; n < 12 && pos < hit->view->len; n++, pos++)
		if (!is_one_of(hit->view->at[pos], " \t\"'\\:=>,"))
			break;
	return pos > hit->body && is_aws_secret(hit->view, &pos);
}

#define NAMED_MIN 24            /* characters of a value that is recognised only by its name */
#define PART_MIN 16             /* of each of the three parts of a JWT */

static bool
is_jwt(const struct secrets_view *view, size_t pos)
{
	for (int part = 0; part < 3; part++) {
		size_t n = run_forward(view, pos, 'u', SECRETS_SEEN_MAX);

		/* A JWT that continues beyond the visible bytes counts as well. */
		if (n >= PART_MIN && pos + n == view->len)
			return part > 0;
		if (n < PART_MIN || (part < 2 && view->at[pos + n] != '.'))
			return false;
		pos += n + 1;
	}
	return true;
}

/* As for AWS, but for any service: only a random-looking value or a JWT counts.  PostHog's keys for
 * sending are public, and every program with PostHog sends them. */
bool
secrets_check_named(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t pos = hit->body, n;
	bool assigned = false;

	for (n = 0; n < 8 && pos < view->len && is_one_of(view->at[pos], " \t\"'\\:=>"); n++, pos++)
		assigned |= is_one_of(view->at[pos], ":=>");
	if (!assigned)
		return false;
	n = run_forward(view, pos, 'u', 256);
	if (n >= 3 && memcmp(view->at + pos, "eyJ", 3) == 0)
		return is_jwt(view, pos);
	return n >= NAMED_MIN && n < 256 && memcmp(view->at + pos, "phc_", 4) != 0 &&
	       secrets_looks_random(view->at + pos, n);
}

/* The token of another request: from a copied command, or a log. */
bool
secrets_check_bearer(const struct secrets_hit *hit)
{
	return is_jwt(hit->view, hit->body - 3);
}

/* ---- marks in the middle ---- */

bool
secrets_check_openai(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t before = run_backward(view, hit->mark, 'u', 128);
	size_t after = run_forward(view, hit->body, 'u', 128);
	const unsigned char *key = view->at + hit->mark - before;
	const unsigned char *start = memmem(key, before, "sk-", 3);

	return after >= 20 && start != NULL && before - (size_t)(start - key) >= 20 &&
	       secrets_looks_random(view->at + hit->body, after);
}

/* The emulator's key is the same for everyone, and in every example. */
bool
secrets_check_azure_key(const struct secrets_hit *hit)
{
	return memcmp(hit->view->at + hit->body, "Eby8vdM02xNOcqFlqUwJ", 20) != 0;
}

/* Three characters, a digit, "Q~" and 31 to 34 characters. */
bool
secrets_check_azure_app(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t n = 0;

	if (run_backward(view, hit->mark, 'u', 3) < 3)
		return false;
	while (hit->body + n < view->len && n < 35 &&
	       (shape_class_has('u', view->at[hit->body + n]) ||
	        is_one_of(view->at[hit->body + n], "~.")))
		n++;
	return n >= 31 && n <= 34 && secrets_looks_random(view->at + hit->body, n);
}

bool
secrets_check_azure_84(const struct secrets_hit *hit)
{
	size_t before = run_backward(hit->view, hit->mark, 'w', 85);
	size_t after = run_forward(hit->view, hit->body, 'w', 85);

	return before == 52 && before + after + 6 == 84 &&
	       secrets_looks_random(hit->view->at + hit->mark - before, 84);
}

bool
secrets_check_telegram(const struct secrets_hit *hit)
{
	size_t digits = run_backward(hit->view, hit->mark, 'd', 11);

	return digits >= 8 && digits <= 10 && secrets_left_edge(hit->view, hit->mark - digits);
}

bool
secrets_check_terraform(const struct secrets_hit *hit)
{
	size_t after = run_forward(hit->view, hit->body, 'u', 128);

	return run_backward(hit->view, hit->mark, 'w', 15) == 14 && after >= 60 &&
	       secrets_looks_random(hit->view->at + hit->body, after);
}

/* ---- others ---- */

/* The digits of a workspace come first, possibly after a version. */
bool
secrets_check_slack(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t pos = hit->body, digits = run_forward(view, pos, 'd', 20);

	if (digits == 1 && view->at[pos + 1] == '-') {
		pos += 2;
		digits = run_forward(view, pos, 'd', 20);
	}
	return digits >= 9 && pos + digits < view->len && view->at[pos + digits] == '-';
}

/* "key-" and a hash is a common key of caches. */
bool
secrets_check_mailgun(const struct secrets_hit *hit)
{
	const struct secrets_view *view = hit->view;
	size_t from = hit->mark > NEAR ? hit->mark - NEAR : 0;
	size_t to = view->len - hit->end > NEAR ? hit->end + NEAR : view->len;

	return memmem(view->at + from, to - from, "ailgun", 6) != NULL ||
	       memmem(view->at + from, to - from, "AILGUN", 6) != NULL;
}
