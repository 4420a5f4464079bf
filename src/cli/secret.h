/* secret.h - the parts of `cloister secret`. */
#ifndef CLOISTER_CLI_SECRET_H
#define CLOISTER_CLI_SECRET_H
#include <stdbool.h>

struct err;

/* secret_cell.c: the secrets of the running cell WORD.  An exit status. */
int secret_cli_list_cell(const char *word, bool json);

/* secret.c: the names of all secrets in the vault; the caller owns them (strv_free). */
int secret_cli_names(char ***ret_names, struct err *err);
/* Asks for the value of the secret TEXT, in the short form of -s, and stores it. */
int secret_cli_add(const char *text, struct err *err);
#endif
