/* state.h - shared by the verbs of `cloister state`. */
#ifndef CLOISTER_CLI_STATE_H
#define CLOISTER_CLI_STATE_H
#include <stdbool.h>

struct err;

struct state_words {
	char **words;                   /* behind the verb */
	int n;
	bool json;
};

/* Each returns an exit status, or negative with ERR. */
int state_do_create(const struct state_words *words, struct err *err);
#endif
