/* dispatch_mcp.c - the way from inside a cell to the service: its address, and the one rule that
 * lets an agent with `delegate` connect to it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_net.h"
#include "dispatch/dispatch_parts.h"
#include "policy/policy.h"

#define PLACE "mcp"                     /* beside the dispatches' folders: the port */
#define PLACE_NEW "mcp.new"
#define PLACE_MAX 16
#define PATH "/mcp"

/* ---- the address ---- */

int
dispatch_mcp_announce(uint16_t port, struct err *err)
{
	/* The lock belongs to the open file, not the process: testing it does not disturb it. */
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	OWN(closep) int top = dispatch_top(err), fd = -1;
	char text[PLACE_MAX];
	int n = snprintf(text, sizeof(text), "%u\n", port);

	if (top < 0)
		return top;
	/* A new file each time: a child of a killed service may still have the last one open. */
	(void)unlinkat(top, PLACE_NEW, 0);
	fd = openat(top, PLACE_NEW, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fcntl(fd, F_OFD_SETLK, &lock) < 0 || pwrite(fd, text, (size_t)n, 0) != n ||
	    renameat(top, PLACE_NEW, top, PLACE) < 0)
		return err_errno(err, "cannot say where agents find the service");
	return TAKE_FD(fd);
}

static uint16_t
read_port(bool is_there)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	OWN(closep) int top = dispatch_top(NULL);
	OWN(closep) int fd = top < 0 ? -1 : openat(top, PLACE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	char text[PLACE_MAX];
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	uint64_t port;

	if (n <= 1 || (is_there && (fcntl(fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)))
		return 0;
	text[n - 1] = '\0';
	return num_parse_count(text, 1, UINT16_MAX, &port, NULL) < 0 ? 0 : (uint16_t)port;
}

uint16_t
dispatch_mcp_last(void)
{
	return read_port(false);
}

/* ---- the rule ---- */

static int
out_of_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static int
add_rule(uint16_t port, struct dispatch_plan *plan, struct err *err)
{
	OWN(json_decrefp) json_t *document = NULL, *rule = NULL, *front = NULL;
	json_t *policy = json_object_get(plan->resolved, "policy");
	OWN(freep) char *text = NULL;
	unsigned char hash[HASH_LEN];
	char host[64], name[HASH_NAME + 1];
	size_t len;
	int r = plan->policy == NULL ? 0 : canon_read(plan->policy, plan->policy_len, &document, err);

	if (r < 0)
		return r;
	snprintf(host, sizeof(host), CELL_NET_HOST_NAME ":%u", port);
	rule = json_pack("{s:s,s:s,s:[s,s,s],s:[s]}", "allow", host, "scheme", "http", "methods", "POST",
	                 "GET", "DELETE", "paths", PATH);
	r = rule == NULL ? out_of_memory(err) : dispatch_policy_front(document, rule, &front, err);
	r = r == 0 ? canon_dump(front, POLICY_FILE_MAX, &text, &len, err) : r;
	if (r < 0)
		return err_wrap(err, "the rule that lets the agent dispatch others");
	hash_of(text, len, hash);
	hash_name(hash, name);
	free(plan->policy);
	plan->policy = TAKE(text);
	plan->policy_len = len;
	if (json_is_object(policy) ? json_object_set_new(policy, "hash", json_string(name)) < 0 :
	    json_object_set_new(plan->resolved, "policy", json_pack("{s:s}", "hash", name)) < 0)
		return out_of_memory(err);
	return 0;
}

/* The reason why it cannot, or NULL. */
static const char *
find_obstacle(const json_t *parent, const json_t *resolved, const char *url)
{
	const json_t *theirs = json_object_get(json_object_get(parent, "delegate"), "depth");
	const json_t *own = json_object_get(json_object_get(resolved, "delegate"), "depth");

	if (url[0] == '\0')
		return "no service is there for agents in cells: see `cloister serve --mcp`";
	if (json_integer_value(own) < 1 || (parent != NULL && json_integer_value(theirs) < 2))
		return "that is as deep as agents may dispatch one another here";
	if (parent != NULL && strcmp(dispatch_text(json_object_get(parent, "mcp"), "url"), url) != 0)
		return "its parent cannot reach the service";
	return NULL;
}

int
dispatch_mcp_offer(const json_t *parent, struct dispatch_plan *plan, struct err *err)
{
	json_t *mcp, *delegate = json_object_get(plan->resolved, "delegate");
	char url[128] = "";
	const char *obstacle;
	uint16_t port;
	int r = 0;

	if (!json_is_object(delegate))
		return 0;
	port = read_port(true);
	if (port != 0)
		snprintf(url, sizeof(url), "http://" CELL_NET_HOST_NAME ":%u" PATH, port);
	obstacle = find_obstacle(parent, plan->resolved, url);
	if (obstacle == NULL)
		r = add_rule(port, plan, err);
	mcp = obstacle == NULL ? json_pack("{s:s}", "url", url) :
	      json_pack("{s:n,s:s}", "url", "reason", obstacle);
	if (r == 0)
		return json_object_set_new(plan->resolved, "mcp", mcp) < 0 ? out_of_memory(err) : 0;
	json_decref(mcp);
	return r;
}
