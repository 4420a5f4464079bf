/* shape.c - parses shapes, compares values with them, and guesses them. */
#include "credential/shape.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"

#define STEPS_MAX 200000                /* of a comparison; after that it does not fit */
#define GUESSED_MIN 16                  /* characters after a prefix */

#define DIGITS "0123456789"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static const struct {
	char class;
	const char *alphabet;
} classes[] = {
	/* The narrow classes first: shape_guess() takes the first that fits. */
	{ 'd', DIGITS },
	{ 'h', DIGITS "abcdef" },
	{ 'H', DIGITS "abcdefABCDEF" },
	{ 'b', UPPER "234567" },
	{ 'a', DIGITS LOWER },
	{ 'A', DIGITS UPPER },
	{ 'w', DIGITS UPPER LOWER },
	{ 'u', DIGITS UPPER LOWER "-_" },
	{ 'x', DIGITS UPPER LOWER "+/" },
};

const char *
shape_alphabet(char class)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if (classes[i].class == class)
			return classes[i].alphabet;
	return NULL;
}

bool
shape_class_has(char class, unsigned char c)
{
	bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';

	switch (class) {
	case 'd': return digit;
	case 'h': return digit || (c >= 'a' && c <= 'f');
	case 'H': return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
	case 'b': return upper || (c >= '2' && c <= '7');
	case 'a': return digit || lower;
	case 'A': return digit || upper;
	case 'w': return digit || lower || upper;
	case 'u': return digit || lower || upper || c == '-' || c == '_';
	case 'x': return digit || lower || upper || c == '+' || c == '/';
	default: return false;
	}
}

/* ---- reading ---- */

static int
bad_item(const char *at, struct err *err)
{
	return err_set(err, EINVAL, "'%.*s' in a shape is not an item such as {w36}, {h8-16}, {u20+} "
	               "or {crc62}", (int)(strcspn(at, "}") + 1 < 24 ? strcspn(at, "}") + 1 : 24), at);
}

/* Parse "36}", "8-16}" or "20+}".  Returns the text after it, or NULL. */
static const char *
parse_counts(const char *c, struct shape_item *item)
{
	size_t *counts[2] = { &item->min, &item->max };

	for (size_t i = 0; i < 2; i++) {
		if (!isdigit((unsigned char)*c))
			return NULL;
		for (*counts[i] = 0; isdigit((unsigned char)*c); c++)
			if ((*counts[i] = *counts[i] * 10 + (size_t)(*c - '0')) > SHAPE_TEXT_MAX)
				return NULL;
		if (i == 0) {
			item->max = item->min;
			if (*c == '+') {
				item->max = SHAPE_TEXT_MAX;
				c++;
			}
			if (*c != '-')
				break;
			c++;
		}
	}
	return *c == '}' && item->min > 0 && item->min <= item->max ? c + 1 : NULL;
}

const char *
shape_next_item(const char *text, struct shape_item *ret_item)
{
	if (strncmp(text, "{crc62}", 7) == 0) {
		*ret_item = (struct shape_item){ 'c', NULL, CODEC_CRC62_LEN, CODEC_CRC62_LEN };
		return text + 7;
	}
	if (*text != '{') {
		*ret_item = (struct shape_item){ 0, text, strcspn(text, "{"), strcspn(text, "{") };
		return text + ret_item->min;
	}
	*ret_item = (struct shape_item){ .class = text[1] };
	return text[1] != '\0' && shape_alphabet(text[1]) != NULL ? parse_counts(text + 2, ret_item) : NULL;
}

static int
check_items(const struct shape *shape, struct err *err)
{
	size_t least = 0;

	for (size_t i = 0; i < shape->n; i++) {
		const struct shape_item *item = &shape->items[i];

		/* The item that it covers must have exactly that length. */
		if (item->class == 'c' && (i == 0 || shape->items[i - 1].class == 0 ||
		    shape->items[i - 1].min != SHAPE_CHECKED || shape->items[i - 1].max != SHAPE_CHECKED))
			return err_set(err, EINVAL, "{crc62} in a shape stands behind an item of %d characters, "
			               "such as {w%d}", SHAPE_CHECKED, SHAPE_CHECKED);
		for (size_t k = 0; item->class == 0 && k < item->min; k++)
			if ((unsigned char)item->at[k] <= ' ' || (unsigned char)item->at[k] > '~' ||
			    item->at[k] == '}')
				return err_set(err, EINVAL, "a shape is of printable characters without blanks");
		least += item->min;
	}
	if (least > SHAPE_TEXT_MAX)
		return err_set(err, EINVAL, "a shape stands for at most %d characters", SHAPE_TEXT_MAX);
	if (shape->n == 0 || (shape->n == 1 && shape->items[0].class == 0))
		return err_set(err, EINVAL, "a shape without an item such as {w36} would be the same in "
		               "every cell");
	return 0;
}

int
shape_parse(const char *text, struct shape *ret_shape, struct err *err)
{
	static const struct { const char *word; enum shape_kind kind; } words[] = {
		{ "jwt", SHAPE_JWT }, { "pem", SHAPE_PEM }, { "base64", SHAPE_BASE64 },
		{ "certificate", SHAPE_CERTIFICATE },
	};
	struct shape shape = {0};
	const char *next;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(text, words[i].word) == 0) {
			*ret_shape = (struct shape){ .kind = words[i].kind };
			return 0;
		}
	}
	for (const char *c = text; *c != '\0'; c = next) {
		if (shape.n == SHAPE_ITEMS_MAX)
			return err_set(err, EINVAL, "a shape has at most %d items", SHAPE_ITEMS_MAX);
		next = shape_next_item(c, &shape.items[shape.n++]);
		if (next == NULL)
			return bad_item(c, err);
	}
	r = check_items(&shape, err);
	if (r == 0)
		*ret_shape = shape;
	return r;
}

/* ---- comparing ---- */

struct fitting {
	const struct shape *shape;
	const char *value;
	size_t len, steps;
	size_t counts[SHAPE_ITEMS_MAX];
};

static bool
checksum_fits(const char *value, size_t at)
{
	char digits[CODEC_CRC62_LEN];

	codec_crc62(value + at - SHAPE_CHECKED, SHAPE_CHECKED, digits);
	return memcmp(value + at, digits, sizeof(digits)) == 0;
}

static bool
fit_from(struct fitting *f, size_t i, size_t at)
{
	const struct shape_item *item = &f->shape->items[i];
	size_t left = f->len - at, n = 0;

	if (++f->steps > STEPS_MAX)
		return false;
	if (i == f->shape->n)
		return left == 0;
	if (left < item->min)
		return false;
	if (item->class == 0 || item->class == 'c') {
		f->counts[i] = item->min;
		return (item->class == 0 ? memcmp(f->value + at, item->at, item->min) == 0
		                         : checksum_fits(f->value, at)) &&
		       fit_from(f, i + 1, at + item->min);
	}
	while (n < left && n < item->max && shape_class_has(item->class, (unsigned char)f->value[at + n]))
		n++;
	for (; n >= item->min; n--) {
		f->counts[i] = n;
		if (fit_from(f, i + 1, at + n))
			return true;
	}
	return false;
}

bool
shape_fit(const struct shape *shape, const char *value, size_t len, struct shape *ret_exact)
{
	struct fitting f = { .shape = shape, .value = value, .len = len };

	if (shape->kind != SHAPE_ITEMS || len > SHAPE_TEXT_MAX || !fit_from(&f, 0, 0))
		return false;
	*ret_exact = *shape;
	for (size_t i = 0; i < shape->n; i++)
		ret_exact->items[i].min = ret_exact->items[i].max = f.counts[i];
	return true;
}

/* ---- guessing ---- */

static size_t
run_of(char class, const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && shape_class_has(class, (unsigned char)text[n]))
		n++;
	return n;
}

/* The documented prefixes of services' tokens: clients look for them, and they reveal nothing of
 * the individual token.  Any other beginning of a value may be part of the secret. */
static const char *const prefixes[] = {
	"AIza", "AKIA", "ASIA", "SG.", "dckr_pat_", "dop_v1_", "fc-", "gho_", "ghp_", "ghs_", "ghu_", "github_pat_",
	"glpat-", "gsk_", "hf_", "lin_api_", "npm_", "pk_live_", "pk_test_", "pplx-", "pypi-", "r8_", "rk_live_",
	"rk_test_", "shpat_", "sk-", "sk-ant-", "sk-ant-api03-", "sk-or-v1-", "sk-proj-", "sk-svcacct-", "sk_live_",
	"sk_test_", "tvly-", "whsec_", "xai-", "xapp-", "xoxb-", "xoxp-",
};

static size_t
guess_prefix(const char *value, size_t len)
{
	size_t best = 0;

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
		size_t n = strlen(prefixes[i]);

		if (n > best && len >= n + GUESSED_MIN && memcmp(value, prefixes[i], n) == 0)
			best = n;
	}
	return best;
}

static void
add_item(struct shape *shape, char class, const char *at, size_t n)
{
	if (n > 0)
		shape->items[shape->n++] = (struct shape_item){ class, at, n, n };
}

static char
class_of(const char *text, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(classes); i++)
		if (run_of(classes[i].class, text, len) == len)
			return classes[i].class;
	return 0;
}

/* Runs of letters and digits, separated by single characters: a UUID, a Slack token, a bot's id and
 * key.  If there are more separators, they belong to the alphabet. */
static bool
guess_parts(struct shape *shape, const char *text, size_t len)
{
	size_t first = shape->n, at = 0, n;

	while (at < len) {
		n = run_of('w', text + at, len - at);
		if (n == 0 || shape->n - first > 12)
			break;
		add_item(shape, class_of(text + at, n), NULL, n);
		at += n;
		if (at < len && strchr("-_.:~", text[at]) != NULL && at + 1 < len)
			add_item(shape, 0, text + at++, 1);
		else if (at < len)
			break;
	}
	if (at == len && shape->n > first)
		return true;
	shape->n = first;
	return false;
}

static bool
is_jwt(const char *value, size_t len)
{
	size_t parts = 0, n;

	if (len < 16 || memcmp(value, "eyJ", 3) != 0)
		return false;
	for (size_t at = 0; at <= len; at += n + 1, parts++) {
		n = run_of('u', value + at, len - at);
		if (n == 0 || (at + n < len && value[at + n] != '.'))
			return false;
	}
	return parts == 3;
}

/* Whether it is most likely base64 of whole bytes, with padding. */
static bool
is_base64(const char *value, size_t len)
{
	size_t n = run_of('x', value, len), pad = len - n;

	if (len < 16 || len % 4 != 0 || pad > 2 || memcmp(value + n, "==", pad) != 0)
		return false;
	return pad > 0 || memchr(value, '+', len) != NULL || memchr(value, '/', len) != NULL;
}

void
shape_guess(const char *value, size_t len, struct shape *ret_shape)
{
	struct shape shape = {0};
	size_t prefix;

	if (len > 11 && memcmp(value, "-----BEGIN ", 11) == 0)
		shape.kind = memmem(value, len, "PRIVATE KEY-----", 16) != NULL ? SHAPE_PEM
		                                                                : SHAPE_CERTIFICATE;
	else if (is_jwt(value, len))
		shape.kind = SHAPE_JWT;
	else if (is_base64(value, len))
		shape.kind = SHAPE_BASE64;
	if (shape.kind != SHAPE_ITEMS) {
		*ret_shape = shape;
		return;
	}
	prefix = len <= SHAPE_TEXT_MAX ? guess_prefix(value, len) : 0;
	add_item(&shape, 0, value, prefix);
	if (len > SHAPE_TEXT_MAX)
		add_item(&shape, 'w', NULL, SHAPE_TEXT_MAX);
	else if (class_of(value + prefix, len - prefix) != 0 && memchr(value + prefix, '-', len - prefix)
	         == NULL)
		add_item(&shape, class_of(value + prefix, len - prefix), NULL, len - prefix);
	else if (!guess_parts(&shape, value + prefix, len - prefix))
		add_item(&shape, class_of(value + prefix, len - prefix) == 'u' ? 'u' : 'w', NULL,
		         len - prefix);
	*ret_shape = shape;
}
