/* dispatch_words.c - explains why a cell did not start or ended, in the terms of the agent's
 * definition: `cloister run` mentions its options, which nobody gave here. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "dispatch/dispatch_parts.h"

/* Replaces FROM, at the beginning of a word, by TO; NULL: the sentence ends before it.  The first
 * match counts. */
static const struct {
	const char *from, *to;
} words[] = {
	{ ", or -s ", NULL },
	{ "--memory", "limits: memory" }, { "--cpus", "limits: cpus" }, { "--pids", "limits: pids" },
	{ "--time", "limits: time" }, { "--disk", "limits: disk" }, { "--io", "limits: io" },
	{ "-s ", "secrets: " },
	{ "use -w DIR:ro", "use the workspace's mode ro" },
	{ "try -w DIR:ro or -w DIR:rw", "try its mode ro or rw" },
	{ "see -p and --allow", "see its `policy:`" },
	{ "which -v can grant", "which a capability can bring" },
};

/* Whether NAME ends a word, so that --time does not match --timeout. */
static bool
fits(const char *at, const char *name)
{
	size_t len = strlen(name);
	char next = strncmp(at, name, len) == 0 ? at[len] : 'x';

	return name[len - 1] == ' ' || name[len - 1] == '\'' ? strncmp(at, name, len) == 0 :
	       !((next >= 'a' && next <= 'z') || next == '-');
}

void
dispatch_own_words(char text[DISPATCH_REASON_MAX])
{
	char out[DISPATCH_REASON_MAX];
	size_t n = 0;

	for (const char *at = text; *at != '\0' && n < sizeof(out) - 1;) {
		size_t i = 0;

		while (i < ARRAY_LEN(words) && !fits(at, words[i].from))
			i++;
		if (i == ARRAY_LEN(words) || (at > text && at[-1] == '-')) {
			out[n++] = *at++;
			continue;
		}
		if (words[i].to == NULL)
			break;
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%s", words[i].to);
		n = n < sizeof(out) ? n : sizeof(out) - 1;
		at += strlen(words[i].from);
	}
	out[n] = '\0';
	memcpy(text, out, n + 1);
}

const char *
dispatch_lost_text(uint32_t lost)
{
	static const struct {
		uint32_t bit;
		const char *text;
	} all[] = {
		{ CELL_LOST_POLICY, "an operator changed its policy while it ran" },
		{ CELL_LOST_CONSEQUENCE, "its policy was narrowed while it ran, by what a request led to" },
		{ CELL_LOST_SECRET, "a secret of its was revoked while it ran" },
		{ CELL_LOST_TTL, "an operator limited how long it runs" },
		{ CELL_LOST_FROZEN, "its cell is frozen" },
		{ CELL_LOST_ENDING, "its cell is being ended" },
	};

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if ((lost & all[i].bit) != 0)
			return all[i].text;
	return "something was taken back from it while it ran";
}
