/* cell_trust.h - lists the places where systems keep their trusted certificate authorities. */
#ifndef CLOISTER_CELL_TRUST_H
#define CLOISTER_CELL_TRUST_H
#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cell_spec;
struct err;

/* Bundles of all authorities, as distributions place them beneath /etc; the first is
 * CELL_NET_BUNDLE.  Ends with NULL. */
extern const char *const cell_trust_bundles[];
/* Java's stores, likewise. */
extern const char *const cell_trust_java[];

/* The host's bundle, open for reading; -1 if it has none. */
int cell_trust_open(void);
/* Append the host's bundle to PEM, or the file INSTEAD of it (NULL or "": none), at most MAX bytes.  A host without one adds
 * nothing. */
int cell_trust_add_host(struct buf *pem, const char *instead, size_t max, struct err *err);
/* Append the file PATH of certificates. */
int cell_trust_add_file(struct buf *pem, const char *path, size_t max, struct err *err);
/* Whether one of Java's stores is among the programs of the cell. */
bool cell_trust_has_java(const struct cell_spec *spec);
#endif
