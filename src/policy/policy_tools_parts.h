/* policy_tools_parts.h - shared by the files of src/policy that read and write `tools`. */
#ifndef CLOISTER_POLICY_TOOLS_PARTS_H
#define CLOISTER_POLICY_TOOLS_PARTS_H
#include "policy/policy_tools.h"

struct policy_getting;

extern const char *const policy_tools_injections[POLICY_INJECTIONS + 1];        /* ends with NULL */

/* Whether the server can be started as it is written.  The error has no place; *ret_member names the
 * member that it is about, or NULL. */
int policy_tools_check_server(const struct policy_tools_server *s, const char **ret_member, struct err *err);

/* < 0, 0 or > 0, as strcmp(). */
int policy_tools_compare_pins(const struct policy_tools_pin *a, const struct policy_tools_pin *b);
bool policy_tools_is_hash(const char *text);

/* ---- policy_read_tools.c ---- */

struct policy_reader;
/* Read `tools`, but for the lock, whose node becomes *ret_lock if there is one. */
int policy_read_tools(struct policy *p, const struct node *node, const struct policy_reader *reader,
                      struct policy_tools **ret_tools, const struct node **ret_lock, struct err *err);
/* Check that the map NODE is a policy, but for its `version`, and append it on one line with it. */
int policy_read_within(const struct node *node, const struct policy_reader *reader, const char *what, size_t max,
                       struct buf *b, struct err *err);

/* ---- policy_put_tools.c: behind the behaviours ---- */

#define POLICY_FORMAT_TOOLS 0x706f6c38u
bool policy_has_tools(const struct policy *p);          /* any layer */
void policy_put_tools(struct buf *b, const struct policy *p);   /* of all layers */
void policy_get_tools(struct policy_getting *g, bool layers);   /* as policy_get_calls() */
#endif
