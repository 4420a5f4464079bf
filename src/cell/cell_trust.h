/* cell_trust.h - where a system keeps the certificate authorities that it trusts. */
#ifndef CLOISTER_CELL_TRUST_H
#define CLOISTER_CELL_TRUST_H
#include <stdbool.h>

/* All of them in one file, wherever distributions have it, beneath /etc; the first is
 * CELL_NET_BUNDLE.  Ends with NULL. */
extern const char *const cell_trust_bundles[];
/* Java's, likewise. */
extern const char *const cell_trust_java[];

/* The host's bundle, open for reading; -1 if it has none. */
int cell_trust_open(void);
/* Whether a Java would look for its store in one of those places beneath ROOT, which is
 * "" for the host. */
bool cell_trust_has_java(const char *root);
#endif
