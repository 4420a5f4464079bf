/* witness_lab.h - a process under the agent's filter, and the acts that a source reports of it. */
#ifndef CLOISTER_WITNESS_LAB_H
#define CLOISTER_WITNESS_LAB_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "loop/loop.h"
#include "witness/source.h"

#define WITNESS_LAB_LOG_MAX (1 << 20)

struct witness_lab {
	struct loop *loop;
	void *state;                    /* of witness_notify */
	pid_t first;
	int status;                     /* of waitpid(2), once it has ended */
	struct loop_source died;
	bool failed;
	struct call_set calls;          /* that are taken away from the agent */
	bool places;                    /* programs of places that can be written are marked */
	/* A line for each act: kind, what, "path" and so on; in the order of struct act. */
	char log[WITNESS_LAB_LOG_MAX];
	size_t len;
};

/* Runs AGENT in a child of a new process, which waits for it and exits with its status.  Both have the filter. */
void witness_lab_start(struct witness_lab *lab, int (*agent)(void));
/* Until the first process ends. */
void witness_lab_run(struct witness_lab *lab);
void witness_lab_close(struct witness_lab *lab);
bool witness_lab_has(const struct witness_lab *lab, const char *part);
/* How many lines have it. */
size_t witness_lab_count(const struct witness_lab *lab, const char *part);
#endif
