/* findings.h - what a boundary finds on this machine, as a list for `cloister doctor`. */
#ifndef CLOISTER_FINDINGS_H
#define CLOISTER_FINDINGS_H
#include <stdbool.h>
#include <stddef.h>

#define FINDINGS_MAX 48
#define FINDING_TEXT_MAX 512

enum finding_state { FINDING_OK, FINDING_LIMITED, FINDING_MISSING };

struct finding {
	const char *name;               /* a constant */
	enum finding_state state;
	bool needed;                    /* no cell can run without it */
	char found[FINDING_TEXT_MAX];
	char todo[FINDING_TEXT_MAX];    /* empty if there is nothing to do */
};

struct findings {
	struct finding at[FINDINGS_MAX];
	size_t n;
};

/* Appends a finding, and returns it.  NAME is borrowed for as long as F lives. */
struct finding *findings_add(struct findings *f, const char *name, enum finding_state state,
                             const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Adds what the operator can do about it. */
void findings_advise(struct finding *finding, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The first finding without which no cell can run, or NULL. */
const struct finding *findings_obstacle(const struct findings *f);
/* How to start the container in which this process runs so that cells can run in it, or OTHERWISE if
 * it runs in none. */
const char *findings_container_advice(const char *otherwise);
#endif
