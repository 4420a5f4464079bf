/* build.h - the parts of cloister-build: `cloister image build`. */
#ifndef CLOISTER_PROC_BUILD_H
#define CLOISTER_PROC_BUILD_H
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/args.h"
#include "canon/hash.h"
#include "image/build_plan.h"
#include "image/build_words.h"
#include "image/store.h"
#include "policy/policy_images.h"

struct err;

/* In place of a hash, for a cell without a policy. */
#define BUILD_NO_POLICY "none"

/* An image in the making: what one stage has so far. */
struct state {
	json_t *config;                 /* the image's configuration, as the OCI image specification has it */
	json_t *layers;                 /* descriptors, for the manifest */
	struct build_vars env, args;    /* ENV and ARG in force */
	int64_t epoch;                  /* no new file is newer */
	bool has_cmd;                   /* CMD was given in this stage */
	unsigned char chain[HASH_LEN];  /* of everything that led here: the key of the cache */
};

struct build {
	const struct args *options;
	struct store *store;
	struct build_plan *plan;
	char *context;                  /* an absolute path */
	char *ignore;                   /* the text of .dockerignore; NULL: none */
	char *file;                     /* the path of the Dockerfile or YAML */
	char *temporary;                /* a folder of this build's own */
	struct build_vars given;        /* --build-arg */
	struct build_vars globals;      /* ARG before the first FROM, and those that are always known */
	unsigned char policy[HASH_LEN]; /* of --policy with the files that it names, --allow and --secret */
	char require[POLICY_IMAGES_TEXT_MAX + 1];       /* what --policy requires of images; "": nothing */
	bool has_policy, json, no_cache;
	size_t n_steps, step;           /* for progress */
	struct state **states;          /* of stages that are done; else NULL */
	bool *needed;                   /* stages that lead to the target */
};

/* One layer, and the record of the cell that made it. */
struct layer_made {
	bool empty;                     /* nothing changed: there is none */
	char diff_id[HASH_NAME + 1], digest[HASH_NAME + 1];
	uint64_t size;
	char cell[16], timeline[HASH_NAME + 1];         /* "" if no cell made it */
};

/* build_state.c */
struct state *state_new(void);
struct state *state_copy(const struct state *from);
void state_free(struct state *state);
OWN_BY(state_freep, struct state *, state_free)
/* The object "config" of the configuration. */
json_t *state_config(const struct state *state);
/* Sets a text of it; "" removes it. */
int state_set_text(struct state *state, const char *name, const char *value, struct err *err);
const char *state_text(const struct state *state, const char *name);   /* "" if there is none */
/* Adds STEP to the history, with its layer (NULL: none). */
int state_add(const struct build *b, struct state *state, const struct build_step *step, const struct layer_made *made,
              struct err *err);
/* Makes STEP, with TEXT, part of the chain. */
void state_chain(struct state *state, const char *text);
/* Writes manifest and configuration to the store.  The image is not listed: other processes find it by its digest, and
 * builds that have the same image in between do not meet. */
int state_store(struct build *b, const struct state *state, struct image_descriptor *ret_descriptor, struct err *err);
/* The folders of its layers, unpacked; the caller owns *ret_list. */
int state_folders(struct build *b, const struct state *state, json_t **ret_list, struct err *err);

/* build_policy.c: fills in POLICY, REQUIRE and HAS_POLICY. */
int build_read_policy(struct build *b, struct err *err);

/* build_from.c: the state that a stage begins with. */
int build_from(struct build *b, size_t stage, struct state **ret_state, struct err *err);
/* The state of the image that REF names, which has what the policy requires.  REF may be a stranger's. */
int build_load(struct build *b, const char *ref, struct state **ret_state, struct err *err);

/* build_steps.c */
int build_step(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err);
int build_expand(const struct build *b, const struct state *state, const char *word, char **ret_text, struct err *err);

/* build_copy.c: COPY, ADD and the folder of WORKDIR. */
int build_copy(struct build *b, size_t stage, struct state *state, const struct build_step *step, struct err *err);
int build_make_folder(struct build *b, struct state *state, const struct build_step *step, const char *path,
                      struct err *err);

/* build_run.c: RUN, in a cell. */
int build_run(struct build *b, struct state *state, const struct build_step *step, struct err *err);

/* build_layer.c: reads an archive from FD and stores it as a layer.  -EBADMSG: its end is missing. */
int build_take_layer(struct build *b, int fd, struct layer_made *ret_made, struct err *err);

/* build_cache.c: the layer that the step whose key is HASH made before; -ENOENT. */
int build_cached(struct build *b, const unsigned char hash[HASH_LEN], struct layer_made *ret_made);
void build_remember(struct build *b, const unsigned char hash[HASH_LEN], const struct layer_made *made);

/* main.c: what is done now, for people or programs. */
void build_tell(struct build *b, const struct build_step *step, const char *how, const struct layer_made *made);
/* The time of config.created and back. */
int64_t build_time(const char *text);
void build_time_text(int64_t time, char ret_text[32]);
#endif
