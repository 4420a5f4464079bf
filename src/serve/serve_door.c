/* serve_door.c - listening sockets, and access through them.
 *
 * A page in somebody's browser can send requests to this machine's ports, under a host name of its
 * choice.  So TCP requires a token, a Host that is this machine's, and no header that shows that a
 * page is asking. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "serve/serve_parts.h"

#define BACKLOG 128
#define RETRY_MS 200                    /* after there was no descriptor for a connection */
#define TOKEN_BYTES 32                  /* of a token that is created here */

/* ---- identity ---- */

static bool
is_local_name(const char *host)
{
	return strcmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
	       strcmp(host, "[::1]") == 0;
}

static bool
is_local_authority(struct http_text text, uint16_t port)
{
	char host[HTTP_HOST_MAX + 1];
	uint16_t its_port = 0;

	return http_authority_parse(text, host, &its_port, NULL) == 0 && is_local_name(host) &&
	       (port == 0 || its_port == 0 || its_port == port);
}

static bool
is_local_origin(struct http_text origin)
{
	static const char *const schemes[] = { "http://", "https://" };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
		size_t n = strlen(schemes[i]);

		if (origin.len > n && memcmp(origin.at, schemes[i], n) == 0)
			return is_local_authority((struct http_text){ origin.at + n, origin.len - n }, 0);
	}
	return false;
}

/* Whether this is the very origin to which the request was sent. */
static bool
is_own_origin(const struct serve_request *q, struct http_text origin)
{
	const char *scheme = q->is_tls ? "https://" : "http://";
	size_t n = strlen(scheme);
	char host[HTTP_HOST_MAX + 1];
	uint16_t port = 0;

	if (origin.len <= n || memcmp(origin.at, scheme, n) != 0 ||
	    http_authority_parse((struct http_text){ origin.at + n, origin.len - n }, host, &port, NULL) < 0)
		return false;
	if (port == 0)
		port = q->is_tls ? 443 : 80;
	return http_text_is(q->head.host, host) && port == q->head.port;
}

/* The judge decides on requests that show no token, or on all. */
static bool
is_for_judge(const struct serve_request *q)
{
	return q->door->is_tcp && q->door->judge != NULL &&
	       (q->door->judges_all || http_head_get(&q->head, "authorization").len == 0);
}

/* The token that was shown, or nothing. */
static struct http_text
shown_token(const struct serve_request *q)
{
	static const char bearer[] = "Bearer ";
	struct http_text shown = http_head_get(&q->head, "authorization");
	size_t n = sizeof(bearer) - 1;

	if (shown.len <= n || shown.len > SERVE_TOKEN_MAX + n || strncasecmp(shown.at, bearer, n) != 0)
		return (struct http_text){0};
	return (struct http_text){ shown.at + n, shown.len - n };
}

const struct serve_token *
serve_token_find(const struct serve_door *door, const char *token, size_t len)
{
	const struct serve_token *found = NULL;
	unsigned char hash[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)token, len, hash);
	for (size_t i = 0; i < door->n_tokens; i++)
		if (CRYPTO_memcmp(hash, door->tokens[i].hash, sizeof(hash)) == 0)
			found = &door->tokens[i];
	return found;
}

void
serve_refuse_token(struct serve_request *q, const char *message)
{
	serve_field(q, "www-authenticate", "Bearer realm=\"cloister\"");
	serve_refuse(q, 401, "unauthorized", NULL, message);
}

/* Leaves it to the handler to judge. */
static bool
hear_token(struct serve_request *q, struct http_text shown)
{
	if (!q->door->hears_tokens || shown.len == 0)
		return false;
	snprintf(q->token, sizeof(q->token), "%.*s", (int)shown.len, shown.at);
	q->role = q->door->role;
	return true;
}

static bool
check_tcp(struct serve_request *q)
{
	const struct serve_token *token;
	struct http_text shown = shown_token(q);
	char host[HTTP_HOST_MAX + 1];
	bool is_ours;

	snprintf(host, sizeof(host), "%.*s", (int)q->head.host.len, q->head.host.at);
	is_ours = is_local_name(host) || (q->door->also_called != NULL &&
	                                  strcmp(host, q->door->also_called) == 0);
	if (!is_ours || q->head.port != q->door->port) {
		serve_refuse(q, 421, "wrong_host", NULL, "this server is called localhost, 127.0.0.1 or "
		             "[::1], with its port: anything else may be a page's trick");
		return false;
	}
	if (is_for_judge(q))
		return q->door->judge(q->door->judge_arg, q);
	/* Whoever waits at this port before the service starts must not get a token. */
	if (q->door->tls != NULL && !q->is_tls) {
		serve_refuse(q, 400, "tls", NULL, "a token is sent with TLS only: ask with https:// instead of "
		             "http://");
		return false;
	}
	token = shown.len > 0 ? serve_token_find(q->door, shown.at, shown.len) : NULL;
	if (token == NULL && hear_token(q, shown))
		return true;
	if (token == NULL) {
		serve_refuse_token(q, q->door->n_tokens == 0 ? "the token is missing: send 'Authorization: "
		                   "Bearer TOKEN', with what is in CLOISTER_MCP_TOKEN" :
		                   "the token is missing or wrong: send 'Authorization: Bearer TOKEN', with "
		                   "what is in the server's token file");
		return false;
	}
	q->role = token->role;
	snprintf(q->who, sizeof(q->who), "token %.*s", (int)sizeof(q->who) - 7, token->name);
	return true;
}

static bool
check_unix(struct serve_request *q)
{
	snprintf(q->who, sizeof(q->who), "uid %u", q->uid);
	if (q->door->fd >= 0 && q->uid != geteuid() && q->uid != 0) {
		serve_refuse(q, 403, "forbidden", NULL, "this server is another user's");
		return false;
	}
	if (!q->door->hears_tokens || http_head_get(&q->head, "authorization").len == 0 ||
	    hear_token(q, shown_token(q)))
		return true;
	serve_refuse_token(q, "what is shown in 'Authorization' is no token");
	return false;
}

bool
serve_door_check(struct serve_request *q)
{
	struct http_text origin = http_head_get(&q->head, "origin");

	q->conn->way->server->stats.refused++;
	if (origin.len > 0 && !(q->door->takes_local_origin && is_local_origin(origin)) &&
	    !(is_for_judge(q) && is_own_origin(q, origin))) {
		serve_refuse(q, 403, "origin", NULL, "pages of a browser have no business here");
		return false;
	}
	if (!(q->door->is_tcp ? check_tcp(q) : check_unix(q)))
		return false;
	q->conn->way->server->stats.refused--;
	/* The handler judges such a token: its response shows whether the client is known. */
	if (q->role != SERVE_GUEST && q->token[0] == '\0')
		q->conn->is_known = true;
	return true;
}

void
serve_know(struct serve_request *q)
{
	q->conn->is_known = true;
}

/* ---- accepting ---- */

static bool
is_wanted(const struct serve_doorway *way)
{
	return !way->server->stopping && way->n_conns < SERVE_CONNS_MAX;
}

/* Drops the oldest unidentified client, since these could otherwise keep all others out by not
 * continuing; else the longest idle client.  The newest are first. */
static void
make_room(struct serve_doorway *way)
{
	struct serve_conn *unknown = NULL, *idle = NULL;

	for (struct serve_conn *c = way->server->conns; c != NULL; c = c->next) {
		if (c->way != way)
			continue;
		if (!c->is_known && c->step != STEP_ASKED && c->step != STEP_STREAMS)
			unknown = c;
		if (c->step == STEP_IDLE)
			idle = c;
	}
	if (unknown != NULL || idle != NULL)
		serve_conn_drop(unknown != NULL ? unknown : idle, false);
}

void
serve_doors_watch(struct serve_server *s)
{
	for (size_t i = 0; i < s->n_ways; i++) {
		struct serve_doorway *way = &s->ways[i];

		if (way->source.fd < 0)
			continue;
		if (loop_watch(s->loop, &way->source, is_wanted(way) && s->retry.at_ms == 0 ? EPOLLIN : 0,
		               NULL) < 0)
			loop_set_timer(s->loop, &s->retry, RETRY_MS);
	}
}

static void
try_again(void *arg)
{
	serve_doors_watch(arg);
}

static void
knock(void *arg, uint32_t events)
{
	struct serve_doorway *way = arg;
	int fd;

	(void)events;
	if (way->n_conns == SERVE_CONNS_MAX - 1)
		make_room(way);
	fd = accept4(way->source.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		serve_conn_take(way, fd);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		loop_set_timer(way->server->loop, &way->server->retry, RETRY_MS);
	serve_doors_watch(way->server);
}

int
serve_open_door(struct serve_server *s, const struct serve_door *door, struct err *err)
{
	struct serve_doorway *way;

	if (s->n_ways == SERVE_DOORS_MAX)
		return err_set(err, E2BIG, "there are more than %d sockets to listen at", SERVE_DOORS_MAX);
	way = &s->ways[s->n_ways++];
	*way = (struct serve_doorway){ .server = s, .door = *door,
		.source = { .fd = door->fd, .ready = knock, .arg = way } };
	loop_prepare_timer(&s->retry, try_again, s);
	return door->fd < 0 ? 0 : loop_watch(s->loop, &way->source, EPOLLIN, err);
}

void
serve_give(struct serve_server *s, int fd)
{
	struct serve_doorway *way = &s->ways[s->n_ways - 1];

	if (way->n_conns >= SERVE_CONNS_MAX - 1)
		make_room(way);
	if (!is_wanted(way))
		close(fd);
	else
		serve_conn_take(way, fd);
}

static void
close_doors(struct serve_server *s)
{
	for (size_t i = 0; i < s->n_ways; i++) {
		if (s->ways[i].source.fd < 0)
			continue;
		loop_unwatch(s->loop, &s->ways[i].source);
		close(s->ways[i].source.fd);
		s->ways[i].source.fd = -1;
	}
	loop_cancel_timer(s->loop, &s->retry);
}

/* A client that has connected is served, even if its request was not read yet. */
static void
let_in_the_last(struct serve_server *s)
{
	for (size_t i = 0; i < s->n_ways; i++) {
		struct serve_doorway *way = &s->ways[i];
		int fd = 0;

		while (way->source.fd >= 0 && way->n_conns < SERVE_CONNS_MAX && fd >= 0) {
			fd = accept4(way->source.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (fd >= 0)
				serve_conn_take(way, fd);
		}
	}
}

static bool
has_asked(const struct serve_conn *c)
{
	char byte;

	return c->ahead.len > 0 || c->conn.more ||
	       recv(c->conn.source.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void
serve_stop(struct serve_server *s, void (*done)(void *arg), void *arg)
{
	let_in_the_last(s);
	s->stopping = true;
	s->stopped = done;
	s->stopped_arg = arg;
	close_doors(s);
	for (struct serve_conn *c = s->conns, *next; c != NULL; c = next) {
		next = c->next;
		if (c->step == STEP_STREAMS || (c->is_carried && c->request != NULL))
			c->request->gone(c->request);
		else if (c->step == STEP_IDLE && !has_asked(c))
			serve_conn_drop(c, false);
	}
	loop_at_round_end(s->loop, &s->bury);
}

void
serve_end_session(struct serve_server *s, uint64_t session)
{
	for (struct serve_conn *c = s->conns, *next; c != NULL; c = next) {
		next = c->next;
		if (c->step == STEP_STREAMS && c->request->session == session)
			c->request->gone(c->request);
	}
}

void
serve_free(struct serve_server *s)
{
	if (s == NULL)
		return;
	s->stopped = NULL;
	close_doors(s);
	while (s->conns != NULL)
		serve_conn_drop(s->conns, false);
	loop_cancel_round(s->loop, &s->bury);
	s->bury.run(s);
	free(s);
}

const struct serve_stats *
serve_stats(const struct serve_server *s)
{
	return &s->stats;
}

uint64_t
serve_idle_since(const struct serve_server *s)
{
	return s->idle_since_ms;
}

/* ---- listening ---- */

int
serve_listen_unix(int dir, const char *name, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	int n;

	if (fd < 0)
		return err_errno(err, "cannot make a socket");
	n = snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s", dir, name);
	if (n < 0 || (size_t)n >= sizeof(address.sun_path))
		return err_set(err, ENAMETOOLONG, "the socket's name '%s' is too long", name);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISSOCK(st.st_mode))
		return err_set(err, EEXIST, "'%s' is there and is no socket: remove it", name);
	(void)!unlinkat(dir, name, 0);
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, "cannot make the socket '%s'", name);
	/* Nobody can connect before it listens. */
	if (fchmodat(dir, name, 0600, 0) < 0 || listen(fd, BACKLOG) < 0)
		return err_errno(err, "cannot listen at '%s'", name);
	return TAKE_FD(fd);
}

static int
parse_address(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_len,
              struct err *err)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret_address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_address;
	const char *colon = strrchr(text, ':');
	size_t len = colon != NULL ? (size_t)(colon - text) : 0;
	uint64_t port;

	*ret_address = (struct sockaddr_storage){0};
	if (colon == NULL || num_parse_count(colon + 1, 0, UINT16_MAX, &port, NULL) < 0)
		return err_set(err, EINVAL, "'%s' is no address to listen at: say 127.0.0.1:PORT", text);
	if (len == 9 && memcmp(text, "127.0.0.1", len) == 0) {
		*v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
		                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		*ret_len = sizeof(*v4);
		return 0;
	}
	if (len == 5 && memcmp(text, "[::1]", len) == 0) {
		*v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port),
		                             .sin6_addr = in6addr_loopback };
		*ret_len = sizeof(*v6);
		return 0;
	}
	if (len == 9 && strncasecmp(text, "localhost", len) == 0)
		return err_set(err, EINVAL, "'%s' may mean several addresses: write 127.0.0.1%s", text, colon);
	return err_set(err, EPERM, "only this machine is served, not the network: listen at 127.0.0.1:PORT "
	               "or [::1]:PORT, and let a reverse proxy or ssh bring others to it");
}

int
serve_listen_tcp(const char *address, uint16_t *ret_port, struct err *err)
{
	struct sockaddr_storage at;
	socklen_t len;
	const int yes = 1;
	int r = parse_address(address, &at, &len, err);
	OWN(closep) int fd = r < 0 ? -1 : socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC |
	                                         SOCK_NONBLOCK, 0);

	if (r < 0)
		return r;
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &len) < 0)
		return err_errno(err, "cannot listen at %s", address);
	*ret_port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port :
	                  ((struct sockaddr_in6 *)&at)->sin6_port);
	return TAKE_FD(fd);
}

int
serve_check_given(int fd, bool *ret_is_tcp, uint16_t *ret_port, struct err *err)
{
	struct sockaddr_storage at = {0};
	const struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
	const struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;
	socklen_t len = sizeof(at), type_len = sizeof(int);
	int type = 0;

	if (getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0)
		return err_errno(err, "this is no socket");
	if (type != SOCK_STREAM)
		return err_set(err, EINVAL, "only stream sockets are listened at");
	*ret_is_tcp = at.ss_family != AF_UNIX;
	*ret_port = ntohs(at.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
	if (at.ss_family == AF_UNIX ||
	    (at.ss_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET) ||
	    (at.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)))
		return 0;
	return err_set(err, EPERM, "only this machine is served, not the network: let it be at 127.0.0.1");
}

/* ---- tokens ---- */

static int
make_token(const char *path, struct err *err)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[TOKEN_BYTES];
	char text[2 * TOKEN_BYTES + 2];
	OWN(closep) int fd = -1;

	if (RAND_bytes(bytes, sizeof(bytes)) != 1)
		return err_set(err, EIO, "there is no randomness for a token");
	for (size_t i = 0; i < TOKEN_BYTES; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * TOKEN_BYTES] = '\n';
	text[2 * TOKEN_BYTES + 1] = '\0';
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return 0;
	if (fd < 0)
		return err_errno(err, "cannot make the token file '%s'", path);
	return write_all(fd, text, 2 * TOKEN_BYTES + 1, err);
}

int
serve_token_load(const char *path, const char *name, enum serve_role role,
                 struct serve_token *ret_token, struct err *err)
{
	struct serve_token token = { .role = role };
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;
	struct stat st;
	size_t len;
	int r = 0;

	if (access(path, F_OK) < 0 && errno == ENOENT)
		r = make_token(path, err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open the token file '%s'", path);
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0 ||
	    (st.st_uid != geteuid() && st.st_uid != 0))
		return err_set(err, EPERM, "others may look at the token file '%s': `chmod 600` it, and make "
		               "a new token", path);
	r = read_whole(fd, SERVE_TOKEN_MAX + 1, &text, &len, err);
	if (r < 0)
		return err_wrap(err, "token file '%s'", path);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
		len--;
	if (len < 16 || strcspn(text, " \t\r\n") < len)
		return err_set(err, EINVAL, "the token file '%s' must hold one token of at least 16 characters, "
		               "and nothing else: remove the file, and one is made", path);
	snprintf(token.name, sizeof(token.name), "%s", name);
	SHA256((unsigned char *)text, len, token.hash);
	OPENSSL_cleanse(text, len);
	*ret_token = token;
	return 0;
}
