/* build_plan.h - the steps that make an image, from a Dockerfile or from a small YAML file.
 *
 * Pure: no I/O.  A plan comes from a stranger.  Words are as they were written: variables in them are replaced when
 * a step is reached, because a base image brings variables too (build_words.h). */
#ifndef CLOISTER_BUILD_PLAN_H
#define CLOISTER_BUILD_PLAN_H
#include <stdbool.h>
#include <stddef.h>

#include "base/own.h"

struct err;

#define BUILD_FILE_MAX (1u << 20)       /* bytes */
#define BUILD_STAGES_MAX 64
#define BUILD_STEPS_MAX 1024            /* of all stages */
#define BUILD_WORDS_MAX 1024            /* of one step */
#define BUILD_TEXT_MAX (64u << 10)      /* bytes of one word, with its variables replaced */

enum build_kind {
	BUILD_ADD, BUILD_ARG, BUILD_CMD, BUILD_COPY, BUILD_ENTRYPOINT, BUILD_ENV, BUILD_EXPOSE, BUILD_LABEL, BUILD_RUN,
	BUILD_USER, BUILD_WORKDIR,
};
extern const char *const build_kind_names[];    /* as a Dockerfile has them */

struct build_step {
	enum build_kind kind;
	unsigned line;
	char *text;                     /* the instruction as one line */
	/* RUN, CMD, ENTRYPOINT: one word for the shell, unless EXEC.  COPY, ADD: sources, then the target.  ENV, LABEL:
	 * a name and its value, in turn.  ARG: NAME or NAME=DEFAULT. */
	char **words;
	size_t n_words;
	bool exec;                      /* they were a JSON list: the words of a command */
	char *from, *chown, *chmod;     /* of COPY and ADD; NULL: not given */
};

struct build_stage {
	unsigned line;
	char *base;                     /* an image, "scratch", or the name of an earlier stage */
	char *name;                     /* NULL: none */
	char *platform;                 /* NULL: none */
	struct build_step *steps;
	size_t n_steps;
};

struct build_plan {
	char escape;                    /* quotes one character of a word */
	struct build_step *globals;     /* ARG before the first stage */
	size_t n_globals;
	struct build_stage *stages;     /* at least one */
	size_t n_stages;
	unsigned packages;              /* the line of packages, which come over the network; 0: there are none */
};

/* Parse TEXT, which errors call FILE.  The caller owns *ret_plan; on failure it is untouched. */
int build_plan_dockerfile(const char *file, const char *text, size_t len, struct build_plan **ret_plan,
                          struct err *err);
int build_plan_yaml(const char *file, const char *text, size_t len, struct build_plan **ret_plan, struct err *err);
void build_plan_free(struct build_plan *plan);
OWN_BY(build_plan_freep, struct build_plan *, build_plan_free)

/* The stage that WORD names, by its name or number, among the first N: its index, or -1. */
int build_plan_find(const struct build_plan *plan, const char *word, size_t n);

/* For the parsers.  The strings are copied.  NULL: out of memory, or too many. */
struct build_stage *build_plan_add_stage(struct build_plan *plan, unsigned line, const char *base);
/* STAGE NULL: a global ARG. */
struct build_step *build_plan_add_step(struct build_plan *plan, struct build_stage *stage, enum build_kind kind,
                                       unsigned line, const char *text);
bool build_step_add_word(struct build_step *step, const char *word, size_t len);
#endif
