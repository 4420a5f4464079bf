/* supervisor_net.c - for a cell without a policy: a resolver that knows no name, and the hint that
 * there is no network, since programs only report that names do not resolve. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define COUNTERS_MAX 4096
#define QUESTION_MAX 1232               /* of DNS; a larger one is truncated, and not answered */
#define QUESTIONS_AT_ONCE 64            /* then others get their turn */
#define DNS_HEADER 12

static void
tell(struct supervisor *sv)
{
	if (!sv->told_net && !sv->spec.quiet && !sv->spec.detached)
		supervisor_say(sv, "the command tried to reach the network, but this cell has none: allow hosts with "
		               "`--allow HOST`, `--allow preset:NAME` or %s", sv->spec.image.build ? "`--policy FILE`" :
		               "a cloister.yaml; `cloister learn` writes one");
	sv->told_net = true;
}

/* Returns the question with "no such name" in its header, without parsing it.  Silence would be
 * EAI_AGAIN, which programs retry for minutes. */
static void
answer(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;

	(void)events;
	for (int i = 0; i < QUESTIONS_AT_ONCE; i++) {
		unsigned char question[QUESTION_MAX];
		struct sockaddr_in from;
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(sv->resolver.fd, question, sizeof(question), MSG_TRUNC | MSG_DONTWAIT,
		                     (struct sockaddr *)&from, &len);

		if (n < 0)
			return;
		/* A response must not be answered, or two resolvers would go on for ever. */
		if (n < DNS_HEADER || n > QUESTION_MAX || (question[2] & 0x80) != 0)
			continue;
		question[2] = (unsigned char)(0x80 | (question[2] & 0x79));     /* opcode and RD unchanged */
		question[3] = 0x80 | 3;                                         /* RA, NXDOMAIN */
		(void)sendto(sv->resolver.fd, question, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL,
		             (struct sockaddr *)&from, len);
		tell(sv);
	}
}

void
supervisor_watch_net(struct supervisor *sv)
{
	if (sv->spec.has_policy)
		return;
	sv->resolver = (struct loop_source){ .fd = sv->sockets[CAPTURE_DNS4], .ready = answer, .arg = sv };
	if (sv->resolver.fd >= 0)
		(void)loop_watch(sv->loop, &sv->resolver, EPOLLIN, NULL);
	if (sv->spec.quiet || sv->spec.detached)
		return;
	sv->counters = sv->boundary->counters(sv->walls);
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

uint64_t
supervisor_open_connections(int counters)
{
	char text[COUNTERS_MAX] = "";

	return pread(counters, text, sizeof(text) - 1, 0) <= 0 ? 0 : count_of(text, "Tcp: ", " CurrEstab");
}

void
supervisor_tell_net(struct supervisor *sv)
{
	char text[COUNTERS_MAX] = "";
	ssize_t n = sv->counters < 0 ? -1 : pread(sv->counters, text, sizeof(text) - 1, 0);

	closep(&sv->counters);
	sv->counters = -1;
	/* Packets without a route, and DNS servers that do not exist. */
	if (n <= 0 || (count_of(text, "Ip: ", " OutNoRoutes") == 0 &&
	               count_of(text, "Udp: ", " NoPorts") == 0))
		return;
	tell(sv);
}
