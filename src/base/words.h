/* words.h - the words of a command line, put together one by one. */
#ifndef CLOISTER_WORDS_H
#define CLOISTER_WORDS_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

#define WORDS_MAX 8192                  /* twice as many as a cell takes */

struct words {
	char *list[WORDS_MAX + 1];      /* ends with NULL */
	size_t n;
	bool failed;                    /* a word is missing: out of memory, or there were too many */
};

void words_free(struct words *w);       /* for OWN(); not W itself */
/* Takes ownership of WORD.  With NULL, W has failed: so the result of str_format() needs no check. */
void words_add(struct words *w, char *word);
#endif
