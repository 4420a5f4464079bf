/* catalogue.h - well-known services: how their credentials are used, what they look like
 * and where they go.
 *
 * Data only.  An entry is what one would write in a file of secrets, so that there is one
 * reader (secret_read) and every entry can be looked at. */
#ifndef CLOISTER_CATALOGUE_H
#define CLOISTER_CATALOGUE_H
#include <stddef.h>

struct catalogue_entry {
	const char *name;               /* "github" */
	const char *title;              /* "GitHub token" */
	const char *variables;          /* "GITHUB_TOKEN GH_TOKEN": names of secrets that mean it */
	const char *text;               /* {scheme: ..., shape: ..., hosts: ...} */
};

extern const struct catalogue_entry catalogue[];        /* ends with a NULL name */

/* By its name or one of its variables, in either case; NULL if there is none. */
const struct catalogue_entry *catalogue_find(const char *word);
const char *catalogue_nearest(const char *word);        /* a name, or NULL */
#endif
