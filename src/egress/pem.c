/* pem.c - finds the line by which a PEM key is recognised when it leaves without its frame. */
#include <string.h>

#include "egress/secrets_parts.h"

#define LINE 64                         /* characters: RFC 7468, 2 */

static const char *
find(const char *at, const char *end, const char *word)
{
	return memmem(at, (size_t)(end - at), word, strlen(word));
}

/* The first lines of two keys or certificates of one kind may be equal, the last are not.  Base64
 * that was put on one line, or has other line ends, still contains this line. */
bool
pem_line(struct http_text pem, const char *kind, struct http_text *ret_line)
{
	const char *end = pem.at + pem.len, *at = find(pem.at, end, kind), *stop, *line;

	at = at == NULL ? NULL : find(at, end, "-----\n");
	if (at == NULL)
		return false;
	at += 6;
	stop = find(at, end, "-----END");
	ret_line->at = NULL;
	for (; stop != NULL && (line = memchr(at, '\n', (size_t)(stop - at))) != NULL; at = line + 1)
		if (line - at == LINE)
			*ret_line = (struct http_text){ at, LINE };
	return ret_line->at != NULL;
}
