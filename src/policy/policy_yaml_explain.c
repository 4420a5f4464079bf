/* policy_yaml_explain.c - see policy_yaml_explain.h. */
#include "policy/policy_yaml_explain.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

#define WORD_SHOWN 40

enum look { LOOK_WHERE_FOUND, LOOK_WHERE_BEGUN };

/* libyaml's messages and ours.  "%s" is the word at the place, "%d" the line where it began. */
static const struct {
	const char *problem, *context;
	enum look look;
	const char *text;
} mistakes[] = {
	{ "did not find expected alphabetic", "while scanning an alias", LOOK_WHERE_BEGUN,
	  "'*' in front means something else to YAML: put it in quotes, '%s'" },
	{ "did not find expected alphabetic", "while scanning an anchor", LOOK_WHERE_BEGUN,
	  "'&' in front means something else to YAML: put it in quotes, '%s'" },
	{ "found a tab character", NULL, LOOK_WHERE_FOUND,
	  "there is a tab here: YAML is indented with spaces only" },
	{ "did not find expected '-' indicator", NULL, LOOK_WHERE_FOUND,
	  "this does not line up with the list that begins on line %d: every '-' of a list stands "
	  "in the same column, and the keys of a rule two columns behind it" },
	{ "did not find expected key", NULL, LOOK_WHERE_FOUND,
	  "this does not line up with what begins on line %d: keys that belong together stand in "
	  "the same column" },
	{ "did not find expected <document start>", NULL, LOOK_WHERE_FOUND,
	  "this does not line up with what is above it: keys that belong together stand in the same "
	  "column" },
	{ "mapping values are not allowed", NULL, LOOK_WHERE_FOUND,
	  "this ':' comes unexpected: line up the keys in one column, and put text that has a ': ' in "
	  "it in quotes" },
	{ "could not find expected ':'", NULL, LOOK_WHERE_BEGUN,
	  "a ':' and a space are missing behind '%s'" },
	{ "block sequence entries are not allowed", NULL, LOOK_WHERE_FOUND,
	  "a list begins on a line of its own, under its key" },
	{ "did not find expected ',' or ']'", NULL, LOOK_WHERE_FOUND,
	  "a ',' or ']' is missing in the list that begins on line %d" },
	{ "did not find expected ',' or '}'", NULL, LOOK_WHERE_FOUND,
	  "a ',' or '}' is missing in the map that begins on line %d" },
	{ "found unexpected end of stream", "while scanning a quoted scalar", LOOK_WHERE_BEGUN,
	  "the quote that begins here has no end" },
	{ "found unknown escape character", NULL, LOOK_WHERE_FOUND,
	  "'\\' begins an escape in double quotes: use single quotes" },
};

/* Marks count characters; convert to bytes. */
static size_t
offset_of(const char *text, size_t len, const yaml_mark_t *mark)
{
	size_t at = 0, line = 0, column = 0;

	for (; at < len && line < mark->line; at++)
		line += text[at] == '\n';
	for (; at < len && (column < mark->column || ((unsigned char)text[at] & 0xc0) == 0x80); at++)
		column += ((unsigned char)text[at] & 0xc0) != 0x80;
	return at;
}

/* Copy the word at AT for the message, up to the first character that cannot belong to it. */
static void
take_word(const char *text, size_t len, size_t at, char word[WORD_SHOWN + 1])
{
	size_t n = 0;

	while (at + n < len && n < WORD_SHOWN && (unsigned char)text[at + n] > ' ' &&
	       (unsigned char)text[at + n] < 0x7f && strchr(",]}'\"#", text[at + n]) == NULL)
		n++;
	memcpy(word, text + at, n);
	word[n] = '\0';
}

/* A character that cannot begin anything: a tab, or one that YAML reserves. */
static bool
explain_character(const char *text, size_t len, const yaml_mark_t *mark,
                  char ret_text[POLICY_YAML_TEXT_MAX])
{
	size_t at = offset_of(text, len, mark);
	char word[WORD_SHOWN + 1];

	if (at < len && text[at] == '\t') {
		snprintf(ret_text, POLICY_YAML_TEXT_MAX,
		         "there is a tab here: YAML is indented with spaces only");
		return true;
	}
	if (at >= len || !isgraph((unsigned char)text[at]))
		return false;
	take_word(text, len, at, word);
	snprintf(ret_text, POLICY_YAML_TEXT_MAX,
	         "nothing begins with '%c' in YAML: put it in quotes, '%s'", text[at], word);
	return true;
}

void
policy_yaml_explain(const yaml_parser_t *yaml, const char *text, size_t len, yaml_mark_t *mark,
                    char ret_text[POLICY_YAML_TEXT_MAX])
{
	const char *problem = yaml->problem != NULL ? yaml->problem : "it ends too soon";
	const char *context = yaml->context != NULL ? yaml->context : "";
	char word[WORD_SHOWN + 1] = "", line[24];

	if (strncmp(problem, "found character that cannot start", 33) == 0 &&
	    explain_character(text, len, mark, ret_text))
		return;
	snprintf(line, sizeof(line), "%zu", yaml->context_mark.line + 1);
	for (size_t i = 0; i < ARRAY_LEN(mistakes); i++) {
		const char *words = mistakes[i].text, *gap = strchr(words, '%');

		if (strncmp(problem, mistakes[i].problem, strlen(mistakes[i].problem)) != 0 ||
		    (mistakes[i].context != NULL && strcmp(context, mistakes[i].context) != 0))
			continue;
		if (mistakes[i].look == LOOK_WHERE_BEGUN)
			*mark = yaml->context_mark;
		take_word(text, len, offset_of(text, len, mark), word);
		snprintf(ret_text, POLICY_YAML_TEXT_MAX, "%.*s%s%s",
		         gap != NULL ? (int)(gap - words) : (int)strlen(words), words,
		         gap == NULL ? "" : gap[1] == 'd' ? line : word, gap != NULL ? gap + 2 : "");
		return;
	}
	snprintf(ret_text, POLICY_YAML_TEXT_MAX, "this is not YAML: %s%s%s", problem,
	         *context != '\0' ? ", " : "", context);
}
