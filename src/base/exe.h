/* exe.h - finds the programs of cloister: the folder of this one, `cloister`, and its helpers. */
#ifndef CLOISTER_EXE_H
#define CLOISTER_EXE_H
#include <limits.h>

struct err;

/* The folder of this program. */
int exe_folder(char ret_path[PATH_MAX], struct err *err);
/* The path of the program `cloister`. */
int exe_find_cloister(char ret_path[PATH_MAX], struct err *err);
/* The path of the helper NAME, for `cloister` and for another helper. */
int exe_find_helper(const char *name, char ret_path[PATH_MAX], struct err *err);
#endif
