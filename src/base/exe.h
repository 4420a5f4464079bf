/* exe.h - where this program stands, and where cloister does. */
#ifndef CLOISTER_EXE_H
#define CLOISTER_EXE_H
#include <limits.h>

struct err;

/* The folder of this program. */
int exe_folder(char ret_path[PATH_MAX], struct err *err);
/* Of a helper, which stands in libexec/: the program `cloister`. */
int exe_find_cloister(char ret_path[PATH_MAX], struct err *err);
#endif
