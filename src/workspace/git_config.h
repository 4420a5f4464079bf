/* git_config.h - what a git configuration file says, without asking git. */
#ifndef CLOISTER_GIT_CONFIG_H
#define CLOISTER_GIT_CONFIG_H
#include <stddef.h>

struct err;

#define GIT_CONFIG_NAME_MAX 64          /* no name that git knows is longer; one that is, is "" */

/* SECTION and KEY are in lower case, without the subsection; VALUE is as git takes it, "" for a
 * key alone.  All are borrowed. */
typedef int git_config_visit(void *arg, const char *section, const char *key, const char *value);

/* Give every value of TEXT to VISIT, until it returns a negative value.  Where git would not go
 * on, the line is left out and the first such is the error (-EINVAL), in the end. */
int git_config_each(const char *text, size_t len, git_config_visit *visit, void *arg,
                    struct err *err);
#endif
