/* firewall.c - see firewall.h.
 *
 * Docker hands packets that it forwards to the chain DOCKER-USER, in iptables' old or new form.  With its own nftables
 * backend there is no such chain: then the rules are a table of their own, which can refuse, and not permit what Docker
 * refuses. */
#include "cli/firewall.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"

#define DNS 53

enum chain { FORWARD, INPUT, CHAINS };
enum verdict { ACCEPT, RETURN, REJECT, DROP };

struct rule {
	enum chain chain;
	const char *in, *out;           /* interfaces; NULL: any */
	const char *net;                /* where to; NULL: anywhere */
	const struct firewall_place *place;     /* where the connection was opened to; NULL: anywhere */
	uint16_t port;                  /* of TCP, at this machine; 0: any */
	const char *state;              /* of the connection; NULL: any */
	enum verdict verdict;
};

/* Writes the rules of one family in one form. */
struct writer {
	FILE *out;
	const struct firewall *f;
	bool six, nft;
	enum chain chain;               /* only rules of this one are written */
};

static const char *const chain_names[CHAINS] = { "CLOISTER-FORWARD", "CLOISTER-INPUT" };
/* Neither the world nor this network. */
static const char *const private4[] = { "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3", NULL };
static const char *const private6[] = { "::/8", "64:ff9b::/96", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", NULL };

/* ---- one rule ---- */

static void
put_iptables(const struct writer *w, const struct rule *r)
{
	static const char *const verdicts[] = { "ACCEPT", "RETURN", "REJECT", "DROP" };

	fprintf(w->out, "-A %s", chain_names[r->chain]);
	if (r->in != NULL)
		fprintf(w->out, " -i %s", r->in);
	if (r->out != NULL)
		fprintf(w->out, " -o %s", r->out);
	if (r->net != NULL)
		fprintf(w->out, " -d %s", r->net);
	if (r->port != 0)
		fprintf(w->out, " -p tcp --dport %u", r->port);
	if (r->place != NULL)
		fprintf(w->out, " -p %s -m conntrack --ctorigdst %s --ctorigdstport %u", r->place->udp ? "udp" : "tcp",
		        r->place->address, r->place->port);
	if (r->state != NULL)
		fprintf(w->out, " -m conntrack --ctstate %s", r->state);
	fprintf(w->out, " -j %s\n", verdicts[r->verdict]);
}

static void
put_nft(const struct writer *w, const struct rule *r)
{
	static const char *const verdicts[] = { "accept", "accept", "reject", "drop" };
	const char *ip = w->six ? "ip6" : "ip";

	fprintf(w->out, "\t\tmeta nfproto %s", w->six ? "ipv6" : "ipv4");
	if (r->in != NULL)
		fprintf(w->out, " iifname \"%s\"", r->in);
	if (r->out != NULL)
		fprintf(w->out, " oifname \"%s\"", r->out);
	if (r->net != NULL)
		fprintf(w->out, " %s daddr %s", ip, r->net);
	if (r->port != 0)
		fprintf(w->out, " tcp dport %u", r->port);
	if (r->place != NULL)
		fprintf(w->out, " meta l4proto %s ct original %s daddr %s ct original proto-dst %u",
		        r->place->udp ? "udp" : "tcp", ip, r->place->address, r->place->port);
	if (r->state != NULL)
		fprintf(w->out, " ct state %s", strcmp(r->state, "NEW") == 0 ? "new" : "established,related");
	fprintf(w->out, " %s\n", verdicts[r->verdict]);
}

static void
put(const struct writer *w, struct rule r)
{
	if (r.chain == w->chain)
		(w->nft ? put_nft : put_iptables)(w, &r);
}

/* ---- all of them ---- */

static void
put_places(const struct writer *w, enum chain chain)
{
	for (unsigned i = 0; i < w->f->n_places; i++)
		if (w->f->places[i].six == w->six)
			put(w, (struct rule){ chain, .in = w->f->workers, .place = &w->f->places[i], .verdict = ACCEPT });
}

/* Cells send what their rules allow, which leaves through the container of a worker: to the world, and not to the networks
 * around.  Nobody opens connections to workers. */
static void
put_forward(const struct writer *w)
{
	static const char known[] = "ESTABLISHED,RELATED";
	const char *workers = w->f->workers;

	if (*workers == '\0')
		return;
	/* Docker keeps its networks apart, and answers, too: what is permitted here is so in both directions. */
	put(w, (struct rule){ FORWARD, .out = workers, .state = known, .verdict = ACCEPT });
	put(w, (struct rule){ FORWARD, .in = workers, .state = known, .verdict = ACCEPT });
	put(w, (struct rule){ FORWARD, .in = workers, .out = workers, .verdict = RETURN });
	put_places(w, FORWARD);
	for (const char *const *net = w->six ? private6 : private4; *net != NULL; net++)
		put(w, (struct rule){ FORWARD, .in = workers, .net = *net, .verdict = REJECT });
	put(w, (struct rule){ FORWARD, .out = workers, .state = "NEW", .verdict = REJECT });
}

/* An address of IPv6 is found by asking. */
static void
put_neighbours(const struct writer *w)
{
	if (!w->six || w->chain != INPUT)
		return;
	if (w->nft)
		fprintf(w->out, "\t\tiifname \"%s\" meta l4proto icmpv6 accept\n", w->f->workers);
	else
		fprintf(w->out, "-A %s -i %s -p icmpv6 -j RETURN\n", chain_names[INPUT], w->f->workers);
}

/* What listens on this machine: the service, for workers alone; and on loopback, for nobody in a container, whatever
 * route_localnet of its bridge is. */
static void
put_input(const struct writer *w)
{
	const struct firewall *f = w->f;
	const char *loopback = w->six ? "::1/128" : "127.0.0.0/8";

	if (*f->workers != '\0') {
		put(w, (struct rule){ INPUT, .in = f->workers, .net = loopback, .verdict = DROP });
		put(w, (struct rule){ INPUT, .in = f->workers, .state = "ESTABLISHED,RELATED", .verdict = RETURN });
		put(w, (struct rule){ INPUT, .in = f->workers, .port = f->service, .verdict = ACCEPT });
		put_places(w, INPUT);
		put_neighbours(w);
		put(w, (struct rule){ INPUT, .in = f->workers, .verdict = REJECT });
	}
	for (unsigned i = 0; i < f->n_others; i++) {
		put(w, (struct rule){ INPUT, .in = f->others[i], .net = loopback, .verdict = DROP });
		put(w, (struct rule){ INPUT, .in = f->others[i], .port = f->service, .verdict = REJECT });
	}
}

static void
put_chain(struct writer *w, enum chain chain)
{
	w->chain = chain;
	(chain == FORWARD ? put_forward : put_input)(w);
}

static void
put_family(FILE *out, const struct firewall *f, bool six)
{
	struct writer w = { .out = out, .f = f, .six = six };

	fprintf(out, "put %s <<'END'\n*filter\n:%s - [0:0]\n:%s - [0:0]\n", six ? "ip6${tool#ip}" : "$tool", chain_names[FORWARD],
	        chain_names[INPUT]);
	put_chain(&w, FORWARD);
	put_chain(&w, INPUT);
	fputs("COMMIT\nEND\n", out);
}

static void
put_table(FILE *out, const struct firewall *f)
{
	static const char *const hooks[CHAINS] = { "forward", "input" };
	struct writer w = { .out = out, .f = f, .nft = true };

	/* Named first, so that it can be deleted. */
	fputs("nft -f - <<'END'\ntable inet cloister\ndelete table inet cloister\ntable inet cloister {\n", out);
	for (enum chain chain = 0; chain < CHAINS; chain++) {
		fprintf(out, "\tchain %s {\n\t\ttype filter hook %s priority filter - 5; policy accept;\n", hooks[chain], hooks[chain]);
		for (w.six = false; ; w.six = true) {
			put_chain(&w, chain);
			if (w.six || !f->six)
				break;
		}
		fputs("\t}\n", out);
	}
	fputs("}\nEND\n", out);
}

static const char head[] =
	"#!/bin/sh\n"
	"# By `cloister doctor --firewall`.  It replaces the rules of an earlier one.  Run it anew when networks of Docker change.\n"
	"set -eu\n"
	"export PATH=\"$PATH:/usr/sbin:/sbin\"\n";

static const char begin[] =
	"put() {\n"
	"\t\"$1-restore\" -w --noflush\n"
	"\tparent=FORWARD\n"
	"\tif \"$1\" -w -n -L DOCKER-USER >/dev/null 2>&1; then parent=DOCKER-USER; fi\n"
	"\t\"$1\" -w -C \"$parent\" -j CLOISTER-FORWARD 2>/dev/null || \"$1\" -w -I \"$parent\" -j CLOISTER-FORWARD\n"
	"\t\"$1\" -w -C INPUT -j CLOISTER-INPUT 2>/dev/null || \"$1\" -w -I INPUT -j CLOISTER-INPUT\n"
	"}\n"
	"\n"
	"tool=\n"
	"for each in iptables iptables-nft iptables-legacy; do\n"
	"\tif \"$each\" -w -n -L DOCKER-USER >/dev/null 2>&1; then tool=$each; break; fi\n"
	"done\n"
	"if [ -z \"$tool\" ]; then\n"
	"\techo 'There is no chain DOCKER-USER: run this as root, while Docker runs with --iptables' >&2\n"
	"\texit 1\n"
	"fi\n";

static const char inverse[] =
	"if command -v nft >/dev/null; then nft delete table inet cloister 2>/dev/null || :; fi\n"
	"for tool in iptables iptables-nft iptables-legacy ip6tables ip6tables-nft ip6tables-legacy; do\n"
	"\tcommand -v \"$tool\" >/dev/null || continue\n"
	"\tfor jump in 'DOCKER-USER -j CLOISTER-FORWARD' 'FORWARD -j CLOISTER-FORWARD' 'INPUT -j CLOISTER-INPUT'; do\n"
	"\t\twhile \"$tool\" -w -D $jump 2>/dev/null; do :; done\n"
	"\tdone\n"
	"\tfor chain in CLOISTER-FORWARD CLOISTER-INPUT; do\n"
	"\t\tif \"$tool\" -w -F \"$chain\" 2>/dev/null; then \"$tool\" -w -X \"$chain\"; fi\n"
	"\tdone\n"
	"done\n";

char *
firewall_script(const struct firewall *f)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out == NULL)
		return NULL;
	fprintf(out, "%s\n# Docker's own nftables backend.\nif nft list table ip docker-bridges >/dev/null 2>&1; then\n", head);
	put_table(out, f);
	fprintf(out, "exit 0\nfi\n\n%s\n", begin);
	put_family(out, f, false);
	if (f->six)
		put_family(out, f, true);
	return fclose(out) == 0 ? text : NULL;
}

char *
firewall_inverse(void)
{
	char *text = NULL;

	return asprintf(&text, "%s\n%s", head, inverse) < 0 ? NULL : text;
}

/* ---- what it is made of ---- */

bool
firewall_is_interface(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < IFNAMSIZ && name[0] != '-' && name[0] != '.' &&
	       strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._") == len;
}

static bool
add(struct firewall *f, const char *address, uint16_t port, bool udp)
{
	unsigned char bytes[sizeof(struct in6_addr)];
	bool six = inet_pton(AF_INET6, address, bytes) == 1;
	struct firewall_place *p = &f->places[f->n_places];

	if (f->n_places == FIREWALL_PLACES_MAX || (!six && inet_pton(AF_INET, address, bytes) != 1))
		return false;
	*p = (struct firewall_place){ .port = port, .six = six, .udp = udp };
	/* As the kernel writes it. */
	(void)inet_ntop(six ? AF_INET6 : AF_INET, bytes, p->address, sizeof(p->address));
	f->n_places++;
	return true;
}

int
firewall_add_place(struct firewall *f, const char *text, struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon == NULL ? 0 : (size_t)(colon - text);
	char address[INET6_ADDRSTRLEN];
	bool six = len > 2 && text[0] == '[' && text[len - 1] == ']';
	uint64_t port;

	if (f->n_places == FIREWALL_PLACES_MAX)
		return err_set(err, E2BIG, "workers may reach at most %d private addresses", FIREWALL_PLACES_MAX);
	snprintf(address, sizeof(address), "%.*s", (int)(six ? len - 2 : len), text + six);
	if (colon == NULL || (strchr(address, ':') != NULL) != six || num_parse_count(colon + 1, 1, UINT16_MAX, &port, NULL) < 0 ||
	    !add(f, address, (uint16_t)port, false))
		return err_set(err, EINVAL, "'%.100s' is no address with a port: write 10.1.2.3:5432 or [fd00::1]:5432", text);
	if (port == DNS)
		(void)add(f, address, DNS, true);
	return 0;
}

bool
firewall_add_resolvers(struct firewall *f, const char *text)
{
	static const char word[] = "nameserver";
	bool any = false;

	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
		char address[INET6_ADDRSTRLEN];
		size_t n = sizeof(word) - 1;

		if (strncmp(line, word, n) != 0 || strspn(line + n, " \t") == 0)
			continue;
		n += strspn(line + n, " \t");
		snprintf(address, sizeof(address), "%.*s", (int)strcspn(line + n, " \t\n#%"), line + n);
		if (strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0 && add(f, address, DNS, true)) {
			(void)add(f, address, DNS, false);
			any = true;
		}
	}
	return any;
}
