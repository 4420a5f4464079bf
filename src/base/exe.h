/* exe.h - finds the folder of this program, and the program `cloister`. */
#ifndef CLOISTER_EXE_H
#define CLOISTER_EXE_H
#include <limits.h>

struct err;

/* The folder of this program. */
int exe_folder(char ret_path[PATH_MAX], struct err *err);
/* For a helper in libexec/: the path of the program `cloister`. */
int exe_find_cloister(char ret_path[PATH_MAX], struct err *err);
#endif
