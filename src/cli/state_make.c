/* state_make.c - `cloister state create`. */
#include "cli/state.h"
#include "state/state.h"

int
state_do_create(const struct state_words *words, struct err *err)
{
	return state_create(words->words[0], NULL, err);
}
