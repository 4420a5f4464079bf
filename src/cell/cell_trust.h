/* cell_trust.h - lists the places where systems keep their trusted certificate authorities. */
#ifndef CLOISTER_CELL_TRUST_H
#define CLOISTER_CELL_TRUST_H
#include <stdbool.h>

struct cell_spec;

/* Bundles of all authorities, as distributions place them beneath /etc; the first is
 * CELL_NET_BUNDLE.  Ends with NULL. */
extern const char *const cell_trust_bundles[];
/* Java's stores, likewise. */
extern const char *const cell_trust_java[];

/* The host's bundle, open for reading; -1 if it has none. */
int cell_trust_open(void);
/* Whether one of Java's stores is among the programs of the cell. */
bool cell_trust_has_java(const struct cell_spec *spec);
#endif
