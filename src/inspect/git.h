/* git.h - reads a push: the body of POST .../git-receive-pack.
 *
 * git_push reads the commands (gitprotocol-pack), and git_pack the objects that follow.
 * git_commits keeps the commits among these, to decide whether a ref moves to a descendant of its
 * old commit.  If that cannot be shown, it counts as no descendant. */
#ifndef CLOISTER_GIT_H
#define CLOISTER_GIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/codec.h"
#include "base/own.h"
#include "inspect/body.h"
#include "ipc/inspect_channel.h"

#define GIT_LINE_MAX 65520              /* of a pkt-line, including its length */
#define GIT_COMMANDS_MAX 1024
#define GIT_REF_MAX 1024
#define GIT_CERT_MAX (1024 * 1024)      /* of a signed push */
#define GIT_OBJECT_MAX (1024 * 1024)    /* of a commit that is kept */
#define GIT_COMMITS_MAX 200000
#define GIT_KEPT_MAX (64 * 1024 * 1024) /* of all commits together */
#define GIT_INFLATED_MAX (UINT64_C(1) << 30)    /* of all objects together */

#define GIT_ID_MAX 32                   /* bytes: SHA-256 */

/* The value of a digit of an id in git's spelling, in lower case; or -1. */
static inline int
git_id_digit(unsigned char c)
{
	return c >= 'A' && c <= 'F' ? -1 : codec_hex_value((char)c);
}

/* ---- commits: git_commits.c ---- */

struct git_commits;                     /* opaque */

/* N_ID: bytes of an id, 20 or 32. */
struct git_commits *git_commits_new(size_t n_id);       /* NULL: out of memory */
void git_commits_free(struct git_commits *c);           /* NULL is fine */
/* Add the commit at OFFSET of the pack; offsets grow.  Takes over CONTENT (malloc'd).  Does nothing
 * beyond the limits. */
void git_commits_add(struct git_commits *c, uint64_t offset, unsigned char *content,
                     size_t len);
/* A commit's content by its offset in the pack or by its id, or NULL. */
const unsigned char *git_commits_at(const struct git_commits *c, uint64_t offset,
                                    size_t *ret_len);
const unsigned char *git_commits_by_id(const struct git_commits *c, const unsigned char *id,
                                       size_t *ret_len);
/* Whether OLD is NEW or an ancestor of it, by the known commits. */
bool git_commits_descends(struct git_commits *c, const unsigned char *new,
                          const unsigned char *old);

/* ---- objects: git_pack.c ---- */

struct git_pack;                        /* opaque */

/* COMMITS is borrowed.  With SECRETS, all objects are scanned for secrets. */
struct git_pack *git_pack_new(struct git_commits *commits, size_t n_id, bool secrets);
void git_pack_free(struct git_pack *p);
/* -EBADMSG: the pack is broken, or exceeds the limits. */
int git_pack_feed(struct git_pack *p, const unsigned char *data, size_t len);
bool git_pack_is_complete(const struct git_pack *p);
/* Commits come first: whether other objects have come. */
bool git_pack_is_past_commits(const struct git_pack *p);
const char *git_pack_secret(const struct git_pack *p);  /* its kind, or NULL */

/* Apply a delta to BASE.  Returns malloc'd memory of at most GIT_OBJECT_MAX; NULL: the delta is
 * broken. */
unsigned char *git_delta_apply(const unsigned char *base, size_t n_base,
                               const unsigned char *delta, size_t n_delta, size_t *ret_len);

/* ---- commands: git_push.c ---- */

enum git_kind { GIT_CREATE, GIT_UPDATE, GIT_DELETE };

struct git_command {
	enum git_kind kind;
	unsigned char old[GIT_ID_MAX], new[GIT_ID_MAX];
	char *ref;                      /* NUL-terminated */
	bool descends;                  /* GIT_UPDATE: the new commit was shown to be a descendant */
};

struct git_push {
	struct git_command commands[GIT_COMMANDS_MAX];
	size_t n_commands;
	bool has_commands;              /* all commands and options were read */
	bool has_options;               /* it carries push options */
	bool wants_report, side_band;   /* for the response */
	bool is_over;                   /* nothing that follows can change the result */
	const char *secret;             /* the kind of a secret that was found, or NULL */
	bool pack_broken;               /* the rest of the pack could not be read */
	struct git_reading *reading;    /* private */
};

int git_push_new(bool secrets, struct git_push **ret_push);
void git_push_free(struct git_push *p);
OWN_BY(git_push_freep, struct git_push *, git_push_free)
/* -EBADMSG: these are no commands. */
int git_push_feed(struct git_push *p, const unsigned char *data, size_t len);
int git_push_finish(struct git_push *p);

/* ---- descriptions: git_describe.c ---- */

/* As in INSPECT_RESULT. */
void git_push_describe(const struct git_push *p, char ret_text[INSPECT_PUSHED_MAX]);

/* ---- rules: body_git.c ---- */

enum body_fit body_git_fits(const struct git_push *p, const struct policy_git *rule,
                            bool every);
/* Whether RULE depends on parts of the pack that are not read yet. */
bool body_git_needs_pack(const struct git_push *p, const struct policy_git *rule,
                         bool every);
#endif
