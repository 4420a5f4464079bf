/* profile_parts.h - shared by the files that read a profile. */
#ifndef CLOISTER_PROFILE_PARTS_H
#define CLOISTER_PROFILE_PARTS_H
#include "profile/profile.h"

struct err;
struct node;

/* One line, without control characters, which could be meant for a terminal.  Errors call it WHAT.  *ret_text is
 * replaced; the caller owns it. */
int profile_read_text(const struct node *node, const char *what, char **ret_text, struct err *err);
/* A list of them, which the caller owns.  CHECK, if any, refuses an item. */
typedef int profile_check(const struct node *item, struct err *err);
int profile_read_list(const struct node *node, const char *what, profile_check *check, char ***ret_list,
                      struct err *err);
/* "NAME=VALUE" of a map of variables; the caller owns the list. */
int profile_read_env(const struct node *node, char ***ret_env, struct err *err);

/* ---- profile_mcp.c ---- */

int profile_read_mcp(struct profile *p, const struct node *node, struct err *err);
void profile_free_mcp(struct profile_mcp *mcp);
#endif
