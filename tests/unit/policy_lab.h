/* policy_lab.h - policies and requests as text, for the tests of src/policy. */
#ifndef CLOISTER_POLICY_LAB_H
#define CLOISTER_POLICY_LAB_H
#include "policy/policy.h"

/* A policy of these rules ("- allow: x"), which must load.  The caller owns it. */
struct policy *lab_rules(const char *rules);
/* Why these rules do not load: "3:5: ..." without the name; "" if they do. */
const char *lab_refuses(const char *rules);
/* The same of a whole file. */
const char *lab_refuses_file(const char *text);

/* A way through one layer, by its rule. */
#define BY(n) (&(struct policy_way){{ n }})

/* A request: "GET https://host:port/path", then headers "name: value" one a line.  The
 * words "length: N" and "upgrade: websocket" set those members. */
struct lab_request {
	struct policy_request req;
	struct http_head head;
	char host[256], text[4096];
};
void lab_request(struct lab_request *lab, const char *text);

/* "allow", "deny", "ask", with a "?" behind it when the body decides, and the number of the
 * rule: "allow 0", "deny -1", "ask? 2". */
const char *lab_decide(const struct policy *p, const char *request);
/* The same once the body was found to fit the rules in FITS (bits). */
const char *lab_decide_body(const struct policy *p, const char *request, unsigned fits);
#endif
