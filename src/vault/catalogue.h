/* catalogue.h - well-known services: the use, form and destinations of their credentials.
 *
 * Data only.  An entry has the syntax of a file of secrets, so there is one reader (secret_read),
 * and every entry can be shown. */
#ifndef CLOISTER_CATALOGUE_H
#define CLOISTER_CATALOGUE_H

struct catalogue_entry {
	const char *name;               /* "github" */
	const char *title;              /* "GitHub token" */
	const char *variables;          /* "GITHUB_TOKEN GH_TOKEN": names of secrets that select it */
	const char *text;               /* {scheme: ..., shape: ..., hosts: ...} */
};

extern const struct catalogue_entry catalogue[];        /* ends with a NULL name */

/* Find an entry by its name or one of its variables, in either case; NULL: there is none. */
const struct catalogue_entry *catalogue_find(const char *word);
const char *catalogue_nearest(const char *word);        /* a similar name, or NULL */
#endif
