/* policy_boundary.c - see policy_boundary.h. */
#include "policy/policy_boundary.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_yaml.h"

const char *const policy_boundary_names[] = {
	BOUNDARY_DEFAULT,
#ifdef CLOISTER_MUTANT
	BOUNDARY_STREAM,
#endif
	BOUNDARY_OCI,
	BOUNDARY_GVISOR,
	BOUNDARY_MICROVM,
	NULL
};

enum { TOP = ARRAY_LEN(policy_boundary_names) - 2 };

/* ---- words ---- */

/* An index, or -1. */
static int
find_name(const char *name, size_t len)
{
	for (int i = 0; i <= TOP; i++)
		if (strlen(policy_boundary_names[i]) == len && memcmp(policy_boundary_names[i], name, len) == 0)
			return i;
	return -1;
}

/* LAST is the end of the list of names. */
static int
no_such(struct err *err, const char *name, size_t len, const char *last)
{
	char list[128] = "";
	size_t n = 0;

	for (int i = 0; i <= TOP; i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s, ", policy_boundary_names[i]);
	return err_set(err, EINVAL, "there is no boundary '%.*s': use %.*s, " BOUNDARY_DOCKER "%s" BOUNDARY_PROCESS "%s",
	               len > 64 ? 64 : (int)len, name, (int)n - 2, list, last[0] == '\0' ? " or " : ", ", last);
}

int
policy_boundary_check_name(const char *name, struct err *err)
{
	return find_name(name, strlen(name)) >= 0 || strcmp(name, BOUNDARY_DOCKER) == 0 ||
	       strcmp(name, BOUNDARY_PROCESS) == 0 ? 0 :
	       no_such(err, name, strlen(name), "");
}

int
policy_boundary_parse(const char *text, struct policy_boundary *ret_boundary, struct err *err)
{
	struct policy_boundary b = { .is_set = true };
	size_t len = strcspn(text, ",");
	int least;

	b.by_engine = strcmp(text, BOUNDARY_DOCKER) == 0;
	b.by_process = strcmp(text, BOUNDARY_PROCESS) == 0;
	if (b.by_engine || b.by_process) {
		*ret_boundary = b;
		return 0;
	}
	b.strongest = len == strlen(POLICY_BOUNDARY_STRONGEST) && strncmp(text, POLICY_BOUNDARY_STRONGEST, len) == 0;
	if (!b.strongest && text[len] == ',' && find_name(text, len) >= 0)
		return err_set(err, EINVAL, "'%.64s' is not a boundary: only '" POLICY_BOUNDARY_STRONGEST "' can have another one behind it, "
		               "as in '" POLICY_BOUNDARY_STRONGEST "," BOUNDARY_DEFAULT "'", text);
	if (b.strongest && text[len] == ',') {
		text += len + 1;
		if (strcmp(text, BOUNDARY_DOCKER) == 0)
			return err_set(err, EINVAL, "'" POLICY_BOUNDARY_STRONGEST "," BOUNDARY_DOCKER "' is not a boundary: '" BOUNDARY_DOCKER "' is no "
			               "stronger than '" BOUNDARY_DEFAULT "'");
		if (strcmp(text, BOUNDARY_PROCESS) == 0)
			return err_set(err, EINVAL, "'" POLICY_BOUNDARY_STRONGEST "," BOUNDARY_PROCESS "' is not a boundary: ask for '"
			               BOUNDARY_PROCESS "', which is weaker than '" BOUNDARY_DEFAULT "', by itself");
		least = find_name(text, strlen(text));
		if (least < 0)
			return no_such(err, text, strlen(text), "");
	} else {
		least = b.strongest ? TOP : find_name(text, len);
		if (least < 0)
			return no_such(err, text, len, " or " POLICY_BOUNDARY_STRONGEST);
	}
	b.least = (unsigned)least;
	*ret_boundary = b;
	return 0;
}

static int
bad_node(const struct node *node, struct err *err)
{
	return node_err(err, node, "the boundary is a name, or [" POLICY_BOUNDARY_STRONGEST ", " BOUNDARY_DEFAULT "]");
}

int
policy_boundary_read(const struct node *node, struct policy_boundary *ret_boundary, struct err *err)
{
	char text[128] = "";
	size_t n = 0;
	struct err why = {0};

	if (node->kind == NODE_MAP || node_is_null(node) || (node->kind == NODE_LIST && (node->n == 0 || node->n > 2)))
		return bad_node(node, err);
	for (size_t i = 0; node->kind == NODE_LIST && i < node->n; i++) {
		const struct node *item = node->items[i];

		if (item->kind != NODE_SCALAR || node_is_null(item) || strchr(item->text, ',') != NULL)
			return bad_node(item, err);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.50s", i == 0 ? "" : ",", item->text);
	}
	return policy_boundary_parse(node->kind == NODE_LIST ? text : node->text, ret_boundary, &why) < 0 ?
	       node_err(err, node, "%s", why.text) : 0;
}

const char *
policy_boundary_text(const struct policy_boundary *b, char text[POLICY_BOUNDARY_TEXT_MAX + 1])
{
	bool has_name = !b->strongest || b->least < TOP;

	if (b->by_engine || b->by_process) {
		snprintf(text, POLICY_BOUNDARY_TEXT_MAX + 1, "%s", b->by_engine ? BOUNDARY_DOCKER : BOUNDARY_PROCESS);
		return text;
	}
	snprintf(text, POLICY_BOUNDARY_TEXT_MAX + 1, "%s%s%s", b->strongest ? POLICY_BOUNDARY_STRONGEST : "",
	         b->strongest && has_name ? "," : "", has_name ? policy_boundary_names[b->least] : "");
	return text;
}

/* ---- runtimes ---- */

#define RUNTIME_OF_GVISOR "runsc"

bool
policy_boundary_has_runtime(const struct policy_boundary *b)
{
	const char *name = policy_boundary_names[b->least];

	return b->is_set && !b->by_engine && !b->by_process && (strcmp(name, BOUNDARY_OCI) == 0 || strcmp(name, BOUNDARY_GVISOR) == 0);
}

int
policy_runtime_check(const char *text, struct err *err)
{
	static const char of_names[] = "._-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	const size_t len = strlen(text);

	if (len > POLICY_RUNTIME_MAX)
		return err_set(err, EINVAL, "an OCI runtime has at most %d characters", POLICY_RUNTIME_MAX);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return err_set(err, EINVAL, "an OCI runtime has no control characters");
	if (text[0] != '/' && (strspn(text, of_names) != len || strspn(text, "._-") > 0 || len == 0))
		return err_set(err, EINVAL, "'%.64s' is no OCI runtime: use a name such as crun, or an absolute path", text);
	return text[0] == '/' && text[strspn(text, "/")] == '\0' ?
	       err_set(err, EINVAL, "'%.64s' is no program", text) : 0;
}

int
policy_boundary_add_runtime(struct policy_boundary *b, const char *text, struct err *err)
{
	int r = policy_runtime_check(text, err);

	if (r < 0)
		return r;
	if (!policy_boundary_has_runtime(b))
		return err_set(err, EINVAL, "a runtime needs the boundary " BOUNDARY_OCI " or " BOUNDARY_GVISOR " beside it");
	if (strcmp(policy_boundary_names[b->least], BOUNDARY_GVISOR) == 0 && text[0] != '/' &&
	    strcmp(text, RUNTIME_OF_GVISOR) != 0)
		return err_set(err, EINVAL, "the boundary '" BOUNDARY_GVISOR "' needs the runtime " RUNTIME_OF_GVISOR);
	memcpy(b->runtime, text, strlen(text) + 1);
	return 0;
}

int
policy_boundary_read_runtime(const struct node *node, struct policy_boundary *b, struct err *err)
{
	struct err why = {0};

	if (node->kind != NODE_SCALAR || node_is_null(node))
		return node_err(err, node, "the runtime is a name such as crun, or an absolute path");
	return policy_boundary_add_runtime(b, node->text, &why) < 0 ? node_err(err, node, "%s", why.text) : 0;
}

/* ---- several sources ---- */

static unsigned
best(const struct policy_boundary *b)
{
	return b->strongest ? TOP : b->least;
}

static bool
differ(const char *one, const char *other)
{
	return one[0] != '\0' && other[0] != '\0' && strcmp(one, other) != 0;
}

int
policy_boundary_raise(struct policy_boundary *all, const struct policy_boundary *demand, struct err *err)
{
	if (demand->least == all->least && differ(all->runtime, demand->runtime))
		return err_set(err, EPERM, "a cell has one OCI runtime, and both '%s' and '%s' are demanded", all->runtime,
		               demand->runtime);
	/* All others are stronger. */
	if (demand->is_set)
		all->by_process = demand->by_process && (!all->is_set || all->by_process);
	all->is_set = all->is_set || demand->is_set;
	all->strongest = all->strongest || demand->strongest;
	if (demand->least > all->least || (demand->least == all->least && demand->runtime[0] != '\0'))
		memcpy(all->runtime, demand->runtime, sizeof(all->runtime));
	if (demand->least > all->least)
		all->least = demand->least;
	return 0;
}

static int
too_weak(const struct policy_boundary *asked, const char *by, const struct policy_boundary *demanded,
         struct err *err)
{
	char less[POLICY_BOUNDARY_TEXT_MAX + 1], more[POLICY_BOUNDARY_TEXT_MAX + 1];

	return err_set(err, EPERM, "%s asks for the boundary '%s', which is weaker than the policy's '%s': ask for "
	               "nothing, or for a stronger one", by, policy_boundary_text(asked, less),
	               policy_boundary_text(demanded, more));
}

static int
check_runtime(const struct policy_boundary *asked, const char *by, const struct policy_boundary *demanded,
              struct err *err)
{
	return differ(asked->runtime, demanded->runtime) ?
	       err_set(err, EPERM, "%s asks for the OCI runtime '%s', and the policy demands '%s'", by, asked->runtime,
	               demanded->runtime) : 0;
}

int
policy_boundary_check(const struct policy_boundary *asked, const char *by,
                      const struct policy_boundary *demanded, struct err *err)
{
	if (asked->is_set && (best(asked) < demanded->least ||
	                      (asked->by_process && demanded->is_set && !demanded->by_process)))
		return too_weak(asked, by, demanded, err);
	return asked->is_set && asked->least == demanded->least ? check_runtime(asked, by, demanded, err) : 0;
}

int
policy_boundary_resolve(const struct policy_boundary *asked, const char *by,
                        const struct policy_boundary *demanded, policy_boundary_can *can, void *arg,
                        const char **ret_name, struct err *err)
{
	struct policy_boundary all = *demanded;
	char text[POLICY_BOUNDARY_TEXT_MAX + 1];
	int r = policy_boundary_check(asked, by, demanded, err), missing = 0;
	bool is_asked;
	unsigned kind;

	r = r == 0 ? policy_boundary_raise(&all, asked, err) : r;
	if (r < 0)
		return r;
	if (best(&all) == TOP)
		missing = can(arg, err);
	is_asked = missing < 0 ? best(asked) == TOP : asked->least == TOP;
	if (missing != 0 && (missing < 0 || all.least == TOP))
		return is_asked ? -err->code : err_wrap(err, "the policy's boundary is '%s'",
		                                                   policy_boundary_text(demanded, text));
	kind = missing != 0 ? all.least : best(&all);
	/* The policy's wish for the strongest kind comes true here. */
	if (asked->is_set && kind > best(asked))
		return too_weak(asked, by, demanded, err);
	*ret_name = asked->by_engine ? BOUNDARY_DOCKER : asked->by_process ? BOUNDARY_PROCESS : policy_boundary_names[kind];
	return missing;
}

int
policy_boundary_runtime(const struct policy_boundary *asked, const char *by,
                        const struct policy_boundary *demanded, const char *name, const char **ret_runtime,
                        struct err *err)
{
	const bool counts = demanded->is_set && strcmp(policy_boundary_names[demanded->least], name) == 0;
	int r = counts ? check_runtime(asked, by, demanded, err) : 0;

	if (r == 0)
		*ret_runtime = asked->runtime[0] != '\0' || !counts ? asked->runtime : demanded->runtime;
	return r;
}
