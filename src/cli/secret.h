/* secret.h - the parts of `cloister secret`. */
#ifndef CLOISTER_CLI_SECRET_H
#define CLOISTER_CLI_SECRET_H
#include <stdbool.h>

/* secret_cell.c: the secrets of the running cell WORD.  An exit status. */
int secret_cli_list_cell(const char *word, bool json);
#endif
