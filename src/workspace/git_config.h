/* git_config.h - parses git configuration files without running git. */
#ifndef CLOISTER_GIT_CONFIG_H
#define CLOISTER_GIT_CONFIG_H
#include <stddef.h>

struct err;

#define GIT_CONFIG_NAME_MAX 64          /* git knows no longer name; a longer one becomes "" */

/* SECTION and KEY are in lower case, without the subsection.  VALUE is as git reads it, "" for a
 * key alone.  All are borrowed. */
typedef int git_config_visit(void *arg, const char *section, const char *key, const char *value);

/* Call VISIT with every value of TEXT, until it returns a negative value.  Lines that git would
 * refuse are skipped; at the end, the first of them is the error (-EINVAL). */
int git_config_each(const char *text, size_t len, git_config_visit *visit, void *arg,
                    struct err *err);
#endif
