/* resolve.c - see resolve.h. */
#include "upstream/resolve.h"

#include <ares.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/err.h"
#include "base/own.h"
#include "http/http_head.h"

#define SOCKETS_MAX 32                  /* sockets of c-ares at once: one per server, and TCP */
#define TRY_MS 1500                     /* per server; doubled with each of three tries */
#define TRIES 3
#define OTHER_FAMILY_MS 50              /* wait for the other family after one has answered: RFC 8305 */
#define TTL_MIN 5                       /* seconds that an answer is cached */
#define TTL_MAX 60
#define TTL_NONE 5                      /* for a name that does not exist */

struct name;
struct query {
	struct name *name;
	int family;
	bool pending;
	int status;
};

struct name {
	struct resolver *resolver;
	struct name *next;
	char text[HTTP_HOST_MAX + 1];
	struct query queries[2];
	struct address addresses[RESOLVE_ADDRESSES_MAX];
	size_t n;
	bool settled;                   /* the waiting requests were answered */
	bool telling;
	uint64_t expires_ms;
	struct resolve_wait *waits;
	struct loop_timer patience;
};

struct socket {
	struct resolver *resolver;
	struct loop_source source;
};

struct resolver {
	struct loop *loop;
	ares_channel channel;
	struct socket sockets[SOCKETS_MAX];     /* source.fd is -1 if unused */
	struct loop_timer timer;
	struct name *names;                     /* the most recently used first */
	size_t n_names;
	struct stat conf;                       /* of /etc/resolv.conf when it was read */
	bool unanswered;
};

static void
set_timer(struct resolver *r)
{
	struct timeval tv, *next = ares_timeout(r->channel, NULL, &tv);

	if (next == NULL)
		loop_cancel_timer(r->loop, &r->timer);
	else
		loop_set_timer(r->loop, &r->timer,
		               (uint64_t)next->tv_sec * 1000 + (uint64_t)next->tv_usec / 1000 + 1);
}

static void
timer_due(void *arg)
{
	struct resolver *r = arg;

	ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(r);
}

static void
socket_ready(void *arg, uint32_t events)
{
	struct socket *s = arg;
	int fd = s->source.fd;

	ares_process_fd(s->resolver->channel,
	                (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 ? fd : ARES_SOCKET_BAD,
	                (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 ? fd : ARES_SOCKET_BAD);
	set_timer(s->resolver);
}

/* c-ares opened, changed or is about to close one of its sockets. */
static void
socket_changed(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolver *r = arg;
	struct socket *s = NULL;
	uint32_t events = (readable ? EPOLLIN : 0u) | (writable ? EPOLLOUT : 0u);

	for (size_t i = 0; i < SOCKETS_MAX; i++) {
		if (r->sockets[i].source.fd == fd) {
			s = &r->sockets[i];
			break;
		}
		if (s == NULL && r->sockets[i].source.fd < 0)
			s = &r->sockets[i];
	}
	/* A socket beyond the limit is not watched: c-ares retries with another server. */
	if (s == NULL || (events == 0 && s->source.fd != fd))
		return;
	s->source.fd = fd;
	(void)loop_watch(r->loop, &s->source, events, NULL);
	if (events == 0)
		s->source.fd = -1;
}

/* No search domains: a rule that allows one name must not lead to another. */
static int
make_channel(struct resolver *r, struct err *err)
{
	struct ares_options options = { .flags = ARES_FLAG_NOSEARCH, .timeout = TRY_MS,
	                                .tries = TRIES, .sock_state_cb = socket_changed,
	                                .sock_state_cb_data = r };
	int status = ares_library_init(ARES_LIB_INIT_ALL);

	if (status == ARES_SUCCESS)
		status = ares_init_options(&r->channel, &options, ARES_OPT_FLAGS | ARES_OPT_DOMAINS |
		                           ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
		                           ARES_OPT_SOCK_STATE_CB);
	if (status != ARES_SUCCESS)
		return err_set(err, EINVAL, "cannot read how names are resolved here: %s",
		               ares_strerror(status));
	return 0;
}

int
resolver_new(struct resolver **ret_resolver, struct err *err)
{
	struct resolver *r = calloc(1, sizeof(*r));
	int code;

	if (r == NULL)
		return err_errno(err, "cannot resolve names");
	for (size_t i = 0; i < SOCKETS_MAX; i++) {
		r->sockets[i].resolver = r;
		r->sockets[i].source = (struct loop_source){ .fd = -1, .ready = socket_ready,
		                                             .arg = &r->sockets[i] };
	}
	loop_prepare_timer(&r->timer, timer_due, r);
	(void)stat("/etc/resolv.conf", &r->conf);
	code = make_channel(r, err);
	if (code < 0) {
		free(r);
		return code;
	}
	*ret_resolver = r;
	return 0;
}

void
resolver_start(struct resolver *r, struct loop *loop)
{
	r->loop = loop;
}

void
resolver_free(struct resolver *r)
{
	if (r == NULL)
		return;
	ares_destroy(r->channel);
	if (r->loop != NULL)
		loop_cancel_timer(r->loop, &r->timer);
	while (r->names != NULL) {
		struct name *n = r->names;

		r->names = n->next;
		if (r->loop != NULL)
			loop_cancel_timer(r->loop, &n->patience);
		free(n);
	}
	ares_library_cleanup();
	free(r);
}

bool
resolver_is_stale(const struct resolver *r)
{
	struct stat now;

	/* If the file was replaced, we still see the old one, whose link count is then different. */
	return r->unanswered && stat("/etc/resolv.conf", &now) == 0 &&
	       (now.st_nlink != r->conf.st_nlink || now.st_ino != r->conf.st_ino ||
	        now.st_mtim.tv_sec != r->conf.st_mtim.tv_sec ||
	        now.st_mtim.tv_nsec != r->conf.st_mtim.tv_nsec);
}

static const char *
problem_of(const struct name *n)
{
	int status = ARES_ETIMEOUT;

	/* The IPv4 result is more useful: few names have only IPv6. */
	for (size_t i = 0; i < 2; i++)
		if (!n->queries[i].pending && n->queries[i].status != ARES_SUCCESS &&
		    (i == 0 || status == ARES_ENODATA))
			status = n->queries[i].status;
	switch (status) {
	case ARES_ENOTFOUND:
		return "there is no such name";
	case ARES_ENODATA:
		return "the name has no address";
	case ARES_ETIMEOUT:
		return "the name servers do not answer";
	case ARES_ECONNREFUSED:
		return "no name server can be reached";
	case ARES_ESERVFAIL:
		return "the name servers cannot answer";
	default:
		return ares_strerror(status);
	}
}

static void
settle(struct name *n)
{
	const char *problem = n->n == 0 ? problem_of(n) : NULL;
	struct resolve_wait *w;

	n->settled = n->telling = true;
	loop_cancel_timer(n->resolver->loop, &n->patience);
	if (n->n == 0)
		n->expires_ms = loop_now_ms() + TTL_NONE * 1000;
	while ((w = n->waits) != NULL) {
		resolver_cancel(w);
		w->done(w->arg, n->addresses, n->n, problem);
	}
	n->telling = false;
}

static void
patience_is_over(void *arg)
{
	struct name *n = arg;

	n->resolver->unanswered |= n->n == 0;
	settle(n);
}

static void
add_address(struct name *n, const struct ares_addrinfo_node *node)
{
	struct address a = { .family = node->ai_family };

	if (n->n == RESOLVE_ADDRESSES_MAX)
		return;
	if (node->ai_family == AF_INET)
		memcpy(a.bytes, &((const struct sockaddr_in *)node->ai_addr)->sin_addr, 4);
	else if (node->ai_family == AF_INET6)
		memcpy(a.bytes, &((const struct sockaddr_in6 *)node->ai_addr)->sin6_addr, 16);
	else
		return;
	for (size_t i = 0; i < n->n; i++)
		if (address_is_same(&n->addresses[i], &a))
			return;
	n->addresses[n->n++] = a;
}

static void
answered(void *arg, int status, int timeouts, struct ares_addrinfo *result)
{
	struct query *q = arg;
	struct name *n = q->name;
	uint64_t ttl = TTL_MAX, expires;

	(void)timeouts;
	q->pending = false;
	q->status = status;
	if (status == ARES_EDESTRUCTION || status == ARES_ECANCELLED)
		return;
	if (status == ARES_SUCCESS) {
		n->resolver->unanswered = false;
		for (struct ares_addrinfo_node *node = result->nodes; node != NULL;
		     node = node->ai_next) {
			add_address(n, node);
			if (node->ai_ttl >= 0 && (uint64_t)node->ai_ttl < ttl)
				ttl = (uint64_t)node->ai_ttl;
		}
		expires = loop_now_ms() + (ttl < TTL_MIN ? TTL_MIN : ttl) * 1000;
		if (n->expires_ms == 0 || expires < n->expires_ms)
			n->expires_ms = expires;
	}
	if (result != NULL)
		ares_freeaddrinfo(result);
	if (n->settled)
		return;
	if (!n->queries[0].pending && !n->queries[1].pending) {
		n->resolver->unanswered |= n->n == 0 && (status == ARES_ETIMEOUT ||
		                                         status == ARES_ECONNREFUSED);
		settle(n);
	} else if (n->n > 0) {
		loop_set_timer(n->resolver->loop, &n->patience, OTHER_FAMILY_MS);
	}
}

static void
begin(struct name *n)
{
	static const int families[2] = { AF_INET, AF_INET6 };
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT };

	n->n = 0;
	n->settled = false;
	n->expires_ms = 0;
	loop_set_timer(n->resolver->loop, &n->patience, RESOLVE_MS);
	for (size_t i = 0; i < 2; i++)
		n->queries[i] = (struct query){ n, families[i], true, ARES_SUCCESS };
	for (size_t i = 0; i < 2; i++) {
		hints.ai_family = families[i];
		hints.ai_socktype = SOCK_STREAM;
		ares_getaddrinfo(n->resolver->channel, n->text, NULL, &hints, answered,
		                 &n->queries[i]);
	}
	set_timer(n->resolver);
}

static bool
is_busy(const struct name *n)
{
	return n->queries[0].pending || n->queries[1].pending;
}

/* Make room for one more: drop the name that was not used for the longest time. */
static bool
make_room(struct resolver *r)
{
	struct name **last = NULL, *n;

	if (r->n_names < RESOLVE_NAMES_MAX)
		return true;
	for (struct name **at = &r->names; *at != NULL; at = &(*at)->next)
		if (!is_busy(*at) && !(*at)->telling && (*at)->waits == NULL)
			last = at;
	if (last == NULL)
		return false;
	n = *last;
	*last = n->next;
	loop_cancel_timer(r->loop, &n->patience);
	free(n);
	r->n_names--;
	return true;
}

/* Find NAME and move it to the front, or add it. */
static struct name *
look_up(struct resolver *r, const char *text)
{
	struct name **at = &r->names, *n;

	while (*at != NULL && strcmp((*at)->text, text) != 0)
		at = &(*at)->next;
	n = *at;
	if (n != NULL) {
		*at = n->next;
	} else {
		if (strlen(text) > HTTP_HOST_MAX || !make_room(r) ||
		    (n = calloc(1, sizeof(*n))) == NULL)
			return NULL;
		n->resolver = r;
		loop_prepare_timer(&n->patience, patience_is_over, n);
		memcpy(n->text, text, strlen(text) + 1);
		r->n_names++;
	}
	n->next = r->names;
	r->names = n;
	return n;
}

void
resolver_ask(struct resolver *r, const char *name, struct resolve_wait *wait)
{
	struct name *n = look_up(r, name);

	wait->at = NULL;
	if (n == NULL) {
		wait->done(wait->arg, NULL, 0, "too many names are asked for at once");
		return;
	}
	if (n->settled && loop_now_ms() < n->expires_ms) {
		wait->done(wait->arg, n->addresses, n->n, n->n == 0 ? problem_of(n) : NULL);
		return;
	}
	wait->next = n->waits;
	wait->at = &n->waits;
	if (n->waits != NULL)
		n->waits->at = &wait->next;
	n->waits = wait;
	if (!is_busy(n)) {
		begin(n);
	} else if (n->settled) {
		/* The entry has expired, and a query is still pending. */
		n->settled = false;
		loop_set_timer(r->loop, &n->patience, RESOLVE_MS);
	}
}

void
resolver_cancel(struct resolve_wait *wait)
{
	if (wait->at == NULL)
		return;
	*wait->at = wait->next;
	if (wait->next != NULL)
		wait->next->at = wait->at;
	wait->at = NULL;
}
