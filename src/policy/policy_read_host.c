/* policy_read_host.c - reads hosts and ports: names, patterns, addresses and ranges. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_load.h"

#define LABEL_MAX 63
#define NAME_MAX_LEN 253

/* ---- names ---- */

static int
check_labels(const char *name, struct err *err)
{
	const char *label = name;
	bool digits = true;
	size_t n;

	if (strlen(name) > NAME_MAX_LEN)
		return err_set(err, EINVAL, "this name is too long");
	/* Such a word was meant as something else: "--", "-x". */
	if (strspn(name, "-_.") == strlen(name))
		return err_set(err, EINVAL, "'%.64s' is not the name of a host", name);
	for (;; label += n + 1) {
		n = strcspn(label, ".");
		if (n == 0 || n > LABEL_MAX)
			return err_set(err, EINVAL, "'%.64s' is not the name of a host", name);
		digits = true;
		for (size_t i = 0; i < n; i++) {
			digits &= isdigit((unsigned char)label[i]) != 0;
			if (!isalnum((unsigned char)label[i]) && label[i] != '-' && label[i] != '_')
				return err_set(err, EINVAL, "'%.64s' is not the name of a host", name);
		}
		if (label[n] == '\0')
			break;
	}
	return digits ? err_set(err, EINVAL, "'%.64s' is neither a name nor an address", name) : 0;
}

static int
parse_name(struct policy *p, char *text, struct policy_host *host, struct err *err)
{
	size_t len = strlen(text);
	int r;

	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c > 0x7e)
			return err_set(err, EINVAL, "write this name in its ASCII form (xn--...)");
		*c = (char)tolower((unsigned char)*c);
	}
	/* Keep the dot of "*.", which would otherwise mean any name. */
	if (len > 1 && text[len - 1] == '.' && text[len - 2] != '*')
		text[--len] = '\0';
	host->kind = POLICY_HOST_NAME;
	if (strncmp(text, "**.", 3) == 0 || strncmp(text, "*.", 2) == 0) {
		host->kind = text[1] == '*' ? POLICY_HOST_UNDER : POLICY_HOST_LABEL;
		text += text[1] == '*' ? 3 : 2;
	} else if (strcmp(text, "*") == 0 || strcmp(text, "**") == 0) {
		host->kind = POLICY_HOST_ANY;
		text += len;
	}
	if (strchr(text, '*') != NULL || (*text == '\0' && host->kind != POLICY_HOST_ANY))
		return err_set(err, EINVAL, "'*' stands only for whole labels in front: "
		               "*.example.com, **.example.com, or * alone");
	if (*text == '.')
		return err_set(err, EINVAL, "write **%.64s for all names under it", text);
	r = host->kind != POLICY_HOST_ANY ? check_labels(text, err) : 0;
	if (r < 0)
		return r;
	if (strcmp(text, "localhost") == 0 || (strlen(text) > 10 &&
	    strcmp(text + strlen(text) - 10, ".localhost") == 0))
		return err_set(err, EINVAL, "loopback stays inside the cell and needs no rule; the "
		               "machine itself is " POLICY_HOST_OF_MACHINE);
	if (strcmp(text, POLICY_HOST_OF_GATE) == 0)
		return err_set(err, EINVAL, "this is the cell's own gate, which needs no rule");
	host->name = policy_copy(p, text, strlen(text));
	return host->name != NULL ? 0 : err_set(err, ENOMEM, "the policy is too large");
}

/* ---- addresses ---- */

static bool
is_loopback(const struct policy_host *host)
{
	static const unsigned char one[16] = { [15] = 1 };
	bool v4 = host->bits >= 96 + 8 && host->address[10] == 0xff && host->address[11] == 0xff;

	return (v4 && host->address[12] == 127) ||
	       (host->bits == 128 && memcmp(host->address, one, sizeof(one)) == 0);
}

/* The bits behind the prefix must be zero: anything else is a mistake. */
static int
check_rest(const struct policy_host *host, bool v4, struct err *err)
{
	unsigned char net[16] = {0};
	char text[INET6_ADDRSTRLEN];

	memcpy(net, host->address, host->bits / 8u);
	if (host->bits % 8 != 0)
		net[host->bits / 8] = host->address[host->bits / 8] &
		                      (unsigned char)(0xff00u >> (host->bits % 8));
	if (memcmp(net, host->address, sizeof(net)) == 0)
		return 0;
	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? net + 12 : net, text, sizeof(text));
	return err_set(err, EINVAL, "this range begins at %s: write %s/%d", text, text,
	               v4 ? host->bits - 96 : host->bits);
}

static int
parse_net(char *text, struct policy_host *host, struct err *err)
{
	char *slash = strchr(text, '/');
	bool v4 = strchr(text, ':') == NULL;
	uint64_t bits = v4 ? 32 : 128;
	int r = 0;

	if (slash != NULL) {
		*slash = '\0';
		r = num_parse_count(slash + 1, 0, bits, &bits, err);
	}
	if (r < 0)
		return err_set(err, EINVAL, "'/%.16s' is not a prefix from 0 to %d", slash + 1,
		               v4 ? 32 : 128);
	if (!policy_address(text, host->address))
		return err_set(err, EINVAL, "'%.64s' is not an address", text);
	host->kind = POLICY_HOST_NET;
	host->name = "";
	host->bits = (uint8_t)(v4 ? 96 + bits : bits);
	if (is_loopback(host))
		return err_set(err, EINVAL, "loopback stays inside the cell and needs no rule; the "
		               "machine itself is " POLICY_HOST_OF_MACHINE);
	return check_rest(host, v4, err);
}

/* Addresses that the courier never connects to, whatever a rule allows: see upstream/address.c. */
static const char *
unusable(const struct policy_host *host)
{
	static const struct {
		unsigned char bytes[16];
		uint8_t bits;
		const char *what;
	} ranges[] = {
		{ { [10] = 0xff, [11] = 0xff, 198, 18 }, 111,
		  "of the cell's own network (a name that leads there needs `private: true`)" },
		{ { [10] = 0xff, [11] = 0xff, 224 }, 100, "multicast" },
		{ { [10] = 0xff, [11] = 0xff, 240 }, 100, "reserved" },
		{ { [10] = 0xff, [11] = 0xff, 192, 88, 99 }, 120, "a relay" },
		{ { [10] = 0xff, [11] = 0xff }, 104, "unspecified" },
		{ { 0 }, 128, "unspecified" },
		{ { 0xfd, 0x63, 0x6c, 0x6f, 0x69, 0x73, 0x74, 0x65 }, 64, "of the cell's own network" },
		{ { 0xff }, 8, "multicast" },
	};

	for (size_t i = 0; host->kind == POLICY_HOST_NET && i < ARRAY_LEN(ranges); i++) {
		struct policy_host range = { .kind = POLICY_HOST_NET, .bits = ranges[i].bits };

		memcpy(range.address, ranges[i].bytes, sizeof(range.address));
		if (host->bits >= range.bits && policy_net_has(&range, host->address))
			return ranges[i].what;
	}
	return NULL;
}

/* ---- a host with its port ---- */

static int
parse_port(const char *text, uint16_t *ret_port, struct err *err)
{
	uint64_t port;

	if (num_parse_count(text, 1, 65535, &port, NULL) < 0)
		return err_set(err, EINVAL, "'%.16s' is not a port from 1 to 65535", text);
	*ret_port = (uint16_t)port;
	return 0;
}

/* Cut the port off TEXT: "[v6]:1", "host:1"; "v6" without brackets has none. */
static int
cut_port(char **text, uint16_t *ret_port, struct err *err)
{
	char *close = **text == '[' ? strchr(*text, ']') : NULL;
	char *colon = close != NULL ? close + 1 : strchr(*text, ':');

	if (**text == '[' && close == NULL)
		return err_set(err, EINVAL, "']' is missing behind the address");
	if (close != NULL) {
		*close = '\0';
		(*text)++;
	}
	if (colon == NULL || *colon == '\0' ||
	    (close == NULL && strchr(colon + 1, ':') != NULL))
		return 0;
	if (*colon != ':')
		return err_set(err, EINVAL, "a port stands behind ':', not '%.16s'", colon);
	*colon = '\0';
	return parse_port(colon + 1, ret_port, err);
}

static int
refuse_url(const char *text, struct err *err)
{
	const char *slash = strchr(text, '/'), *host = strstr(text, "://"), *user;

	if (host != NULL) {
		host += 3;
		user = memrchr(host, '@', strcspn(host, "/?#"));
		host = user != NULL ? user + 1 : host;
		return err_set(err, EINVAL, "this is a URL: write '%.*s' here, and the rest under `scheme:` "
		               "and `paths:`", (int)strcspn(host, "/?#"), host);
	}
	if (strncmp(text, "preset:", 7) == 0)
		return err_set(err, EINVAL, "a preset is included: `- include: %.64s`", text + 7);
	if (strchr(text, '@') != NULL)
		return err_set(err, EINVAL, "a host has no user in front of it");
	if (slash != NULL && (!isdigit((unsigned char)slash[1]) || strpbrk(text, "*ghijklmnopqrst"
	    "uvwxyzGHIJKLMNOPQRSTUVWXYZ-_") != NULL))
		return err_set(err, EINVAL, "a path goes under `paths:`");
	return 0;
}

int
policy_parse_host(struct policy *p, const char *text, struct policy_host *ret_host,
                  struct err *err)
{
	char copy[POLICY_TEXT_MAX + 1], *rest = copy;
	int r = refuse_url(text, err);

	if (r < 0)
		return r;
	if (*text == '\0' || strlen(text) >= sizeof(copy))
		return err_set(err, EINVAL, "'%.64s' is not the name of a host", text);
	memcpy(copy, text, strlen(text) + 1);
	*ret_host = (struct policy_host){0};
	r = cut_port(&rest, &ret_host->port, err);
	if (r < 0)
		return r;
	if (strpbrk(rest, ":/") != NULL || strspn(rest, "0123456789.") == strlen(rest))
		return parse_net(rest, ret_host, err);
	return parse_name(p, rest, ret_host, err);
}

/* ---- keys ---- */

int
policy_read_hosts(struct policy_draft *d, const struct node *node)
{
	struct policy_list list;
	struct policy_host *hosts;
	struct err err = {0};
	int r;

	if (node->kind == NODE_MAP)
		return node_err(d->err, node, "here stands a host or a list of them; what narrows the "
		                "rule comes under it");
	r = policy_read_list(d, node, "a host", NULL, &list);
	if (r < 0)
		return r;
	if (policy_is_call(list.at[0]))
		return policy_read_calls(d, node);
	hosts = policy_alloc(d->p, list.n, sizeof(*hosts));
	if (hosts == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; i < list.n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (policy_is_call(list.at[i]))
			return node_err(d->err, item, "a rule is about hosts or about tools: write two");
		if (policy_parse_host(d->p, list.at[i], &hosts[i], &err) < 0)
			return node_err(d->err, item, "%s", err.text);
		if ((d->rule.verb == POLICY_VERB_ALLOW || d->rule.verb == POLICY_VERB_ASK) &&
		    unusable(&hosts[i]) != NULL)
			return node_err(d->err, item, "nothing is ever sent to this address: it is %s",
			                unusable(&hosts[i]));
		if (d->rule.verb != POLICY_VERB_DENY && hosts[i].kind == POLICY_HOST_NAME &&
		    policy_is_tools_host(hosts[i].name))
			return node_err(d->err, item, "name the tools: `allow: tool:SERVER.NAME`, or tool:** for all of them");
	}
	d->rule.hosts = hosts;
	d->rule.n_hosts = list.n;
	return 0;
}

/* "443", "9000-9100". */
static int
parse_ports(const char *text, struct policy_ports *ret_ports, struct err *err)
{
	const char *dash = strchr(text, '-');
	OWN(freep) char *first = dash == NULL ? strdup(text) : strndup(text, (size_t)(dash - text));
	int r = first == NULL ? -ENOMEM : parse_port(first, &ret_ports->first, err);

	ret_ports->last = ret_ports->first;
	if (r == 0 && dash != NULL)
		r = parse_port(dash + 1, &ret_ports->last, err);
	if (r == 0 && ret_ports->first > ret_ports->last)
		r = err_set(err, EINVAL, "a range of ports goes upwards");
	return r;
}

int
policy_read_ports(struct policy_draft *d, const struct node *node)
{
	struct policy_list list;
	struct policy_ports *ports;
	struct err err = {0};
	int r = policy_read_list(d, node, "a port", NULL, &list);

	if (r < 0)
		return r;
	ports = policy_alloc(d->p, list.n, sizeof(*ports));
	if (ports == NULL)
		return policy_read_oom(d);
	for (size_t i = 0; i < list.n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		r = parse_ports(list.at[i], &ports[i], &err);
		if (r == -ENOMEM)
			return policy_read_oom(d);
		if (r < 0)
			return node_err(d->err, item, "%s", err.text);
	}
	d->rule.ports = ports;
	d->rule.n_ports = list.n;
	return 0;
}
