/* supervisor_net.c - notices that a cell without a policy tried to reach the network: its
 * programs say no more than that names do not resolve. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define COUNTERS_MAX 4096

void
supervisor_watch_net(struct supervisor *sv)
{
	char path[64];

	if (sv->spec.has_policy || sv->spec.quiet || sv->spec.detached)
		return;
	/* Open from now on: it holds the namespace, whose counters outlive the cell so. */
	snprintf(path, sizeof(path), "/proc/%d/net/snmp", (int)sv->cell.init);
	sv->counters = open(path, O_RDONLY | O_CLOEXEC);
}

/* Counter NAME of protocol KIND: a line of names, and one with their values. */
static unsigned long
count_of(const char *text, const char *kind, const char *name)
{
	const char *names = strstr(text, kind), *values, *at;
	size_t column = 0;

	values = names == NULL ? NULL : strstr(names + 1, kind);
	if (values == NULL || (at = strstr(names, name)) == NULL || at > values)
		return 0;
	for (const char *c = names; c <= at; c++)
		column += *c == ' ';
	for (; column > 0 && values != NULL; column--)
		values = strchr(values + 1, ' ');
	return values != NULL ? strtoul(values, NULL, 10) : 0;
}

void
supervisor_tell_net(struct supervisor *sv)
{
	char text[COUNTERS_MAX] = "";
	ssize_t n = sv->counters < 0 ? -1 : pread(sv->counters, text, sizeof(text) - 1, 0);

	closep(&sv->counters);
	sv->counters = -1;
	/* Addresses that are nowhere, and resolvers that are not there. */
	if (n <= 0 || (count_of(text, "Ip: ", " OutNoRoutes") == 0 &&
	               count_of(text, "Udp: ", " NoPorts") == 0))
		return;
	supervisor_say(sv, "the command tried to reach the network, of which this cell has none: "
	               "`--allow HOST`, `-p FILE` or a cloister.yaml says what it may reach");
}
