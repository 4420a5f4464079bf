/* injection.c - see injection.h. */
#include "inspect/injection.h"

#include <assert.h>
#include <string.h>

#include "base/own.h"

#define GAP 3                           /* words between two of a pattern, such as "all of the" */
#define SETS 3

/* Words in this order; each set lists alternatives, between blanks. */
static const struct pattern {
	const char *kind;
	const char *sets[SETS];         /* NULL: there are no more */
	unsigned char gap;
} patterns[] = {
	{ "ignore-instructions", { " ignore disregard forget override bypass ",
	  " previous prior above earlier preceding all any your system ",
	  " instructions instruction prompt prompts rules directions guidelines " }, GAP },
	{ "new-instructions", { " new updated real actual ", " instructions instruction ", " are follow below from is " }, 0 },
	{ "new-role", { " you ", " are ", " now " }, 0 },
	{ "hide-from-user", { " not never without dont don ", " tell telling mention mentioning inform informing reveal notify show ",
	  " user human operator person anyone " }, 1 },
	{ "reveal-prompt", { " reveal print repeat output show leak ", " system initial hidden ", " prompt instructions message " }, GAP },
	{ "send-secrets", { " send post upload forward exfiltrate transmit include ",
	  " secret secrets password passwords token tokens credentials credential key keys env ssh ", " to in as via " }, 5 },
};
/* Bytes as models see them where a message of another role begins; in lower case. */
static const char *const marks[] = { "<|im_start|>", "<|system|>", "[/inst]", "[inst]", "<system>", "</system>",
                                     "<important>", "<<sys>>" };
static const char mark_kind[] = "role-marker", hidden_kind[] = "hidden-text";

#define MARK ARRAY_LEN(patterns)
#define HIDDEN (MARK + 1)

const char *const injection_kinds[] = { "ignore-instructions", "new-instructions", "new-role", "hide-from-user", "reveal-prompt",
                                        "send-secrets", mark_kind, hidden_kind };
const size_t injection_n_kinds = ARRAY_LEN(injection_kinds);
static_assert(ARRAY_LEN(injection_kinds) == ARRAY_LEN(patterns) + 2 &&
              ARRAY_LEN(injection_kinds) <= INJECTION_KINDS_MAX,
              "each pattern has its kind");

/* ---- words ---- */

static bool
is_in(const char *set, const char *word, size_t len)
{
	for (const char *at = set; (at = strchr(at, ' ')) != NULL && at[1] != '\0'; at++)
		if (strncmp(at + 1, word, len) == 0 && at[1 + len] == ' ')
			return true;
	return false;
}

static void
end_word(struct injection *in)
{
	size_t n = in->n_word;

	in->n_word = 0;
	if (n == 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		const struct pattern *p = &patterns[i];
		unsigned char at = in->patterns[i].at;

		if (n <= INJECTION_WORD_MAX && is_in(p->sets[at], in->word, n)) {
			at++;
			in->patterns[i].left = p->gap + 1;
		} else if (at > 0 && --in->patterns[i].left == 0) {
			/* The word may begin the pattern anew. */
			at = n <= INJECTION_WORD_MAX && is_in(p->sets[0], in->word, n);
			in->patterns[i].left = p->gap + 1;
		}
		if (at == SETS) {
			in->found |= 1u << i;
			at = 0;
		}
		in->patterns[i].at = at;
	}
}

/* ---- bytes ---- */

/* Characters without a width, or that turn the direction of writing: nobody sees them. */
static bool
is_hidden(uint32_t code)
{
	return (code >= 0x200b && code <= 0x200f) || (code >= 0x202a && code <= 0x202e) || (code >= 0x2060 && code <= 0x2069) ||
	       code == 0xdb40 || code == 0xfeff;
}

static bool
ends_hidden(const unsigned char *tail)
{
	const unsigned char *end = tail + sizeof(((struct injection *)0)->tail);

	if (end[-3] == 0xe2 && (end[-2] == 0x80 || end[-2] == 0x81))
		return is_hidden(0x2000u | (uint32_t)(end[-2] & 1) << 6 | (end[-1] & 0x3f));
	return (end[-3] == 0xf3 && end[-2] == 0xa0 && (end[-1] & 0xfe) == 0x80) || (end[-3] == 0xef && end[-2] == 0xbb && end[-1] == 0xbf);
}

static void
look_at_tail(struct injection *in)
{
	const unsigned char *end = in->tail + sizeof(in->tail);

	if (end[-1] >= 0x80 && ends_hidden(in->tail))
		in->found |= 1u << HIDDEN;
	for (size_t i = 0; (end[-1] == '>' || end[-1] == ']') && i < ARRAY_LEN(marks); i++) {
		size_t n = strlen(marks[i]);

		if (memcmp(end - n, marks[i], n) == 0)
			in->found |= 1u << MARK;
	}
}

static void
take(struct injection *in, unsigned char c)
{
	c = c >= 'A' && c <= 'Z' ? c | 0x20 : c;
	memmove(in->tail, in->tail + 1, sizeof(in->tail) - 1);
	in->tail[sizeof(in->tail) - 1] = c;
	look_at_tail(in);
	/* An apostrophe is no end: "don't". */
	if (c == '\'')
		return;
	if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) {
		end_word(in);
		return;
	}
	if (in->n_word < INJECTION_WORD_MAX)
		in->word[in->n_word] = (char)c;
	if (in->n_word <= INJECTION_WORD_MAX)
		in->n_word++;
}

static unsigned
hex(unsigned char c)
{
	return c >= '0' && c <= '9' ? (unsigned)c - '0' : ((unsigned)c | 0x20u) - 'a' + 10u;
}

void
injection_feed(struct injection *in, const void *data, size_t len)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < len; i++) {
		if (in->escape == 255) {
			in->escape = at[i] == 'u' ? 4 : 0;
			in->code = 0;
			if (in->escape == 0)
				take(in, strchr("nrtbf", at[i]) != NULL ? ' ' : at[i]);
		} else if (in->escape > 0) {
			in->code = in->code << 4 | (hex(at[i]) & 15);
			if (--in->escape == 0) {
				in->found |= is_hidden(in->code) ? 1u << HIDDEN : 0;
				take(in, in->code < 0x80 ? (unsigned char)in->code : ' ');
			}
		} else if (at[i] == '\\') {
			in->escape = 255;
		} else {
			take(in, at[i]);
		}
	}
}
