/* words.c - see words.h. */
#include "base/words.h"

#include <stdlib.h>

void
words_free(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->list[i]);
}

void
words_add(struct words *w, char *word)
{
	if (word == NULL || w->n == WORDS_MAX) {
		w->failed = true;
		free(word);
	} else {
		w->list[w->n++] = word;
	}
}
