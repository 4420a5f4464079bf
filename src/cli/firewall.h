/* firewall.h - rules for a machine where Docker's containers, workers among them, and cells live side by side.
 *
 * Pure: the result is a shell script.  It replaces rules of an earlier one, so it can be run at any time, and its inverse
 * removes all of them.  It finds out which of the machine's firewalls Docker uses. */
#ifndef CLOISTER_CLI_FIREWALL_H
#define CLOISTER_CLI_FIREWALL_H
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

#define FIREWALL_BRIDGES_MAX 256
#define FIREWALL_PLACES_MAX 32
#define FIREWALL_SERVICE 7879           /* the usual port of `serve --workers` */

struct firewall_place {
	char address[INET6_ADDRSTRLEN];
	uint16_t port;
	bool six, udp;
};

struct firewall {
	char workers[IFNAMSIZ];         /* the bridge of their network; "": they have none */
	char others[FIREWALL_BRIDGES_MAX][IFNAMSIZ];    /* bridges of other networks */
	unsigned n_others;
	uint16_t service;
	struct firewall_place places[FIREWALL_PLACES_MAX];      /* which workers may reach, although they are private */
	unsigned n_places;
	bool six;                       /* some network has IPv6 */
};

/* NAME comes from the engine, and becomes a part of a script. */
bool firewall_is_interface(const char *name);
/* TEXT: "ADDRESS:PORT" or "[ADDRESS]:PORT". */
int firewall_add_place(struct firewall *f, const char *text, struct err *err);
/* The servers that the file of a resolver names, except those on this machine's loopback.  Returns whether there are any. */
bool firewall_add_resolvers(struct firewall *f, const char *text);

/* The caller frees them; NULL: there is no memory. */
char *firewall_script(const struct firewall *f);
char *firewall_inverse(void);
#endif
