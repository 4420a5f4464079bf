/* mcp_loop.c - calls a tool of MCP servers and times it, with next to no cost of its own; and is such a server.
 *
 * mcp_loop serve
 *	A server over standard input and output, with one tool: "echo".
 * mcp_loop time ROUNDS WARMUP SEP TARGET... [SEP TARGET...]...
 *	Calls the tool of each target in turn, A B A B.  Prints "which ns" for each call after the first WARMUP rounds.
 * mcp_loop load MILLISECONDS LINKS SEP TARGET
 *	Keeps LINKS connections to an HTTP target busy.  Prints "done ns".
 * mcp_loop list SESSIONS SEP TARGET
 *	Begins SESSIONS sessions with an HTTP target, lists the tools of each, prints their number, and waits for the end
 *	of standard input.
 *
 * TARGET is "stdio TOOL CMD...", or "http HOST ADDRESS PORT PATH TOOL". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TARGETS_MAX 8
#define LINKS_MAX 64
#define ANSWER_MAX (4 << 20)

static const char initialize[] = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
	"\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"mcp_loop\",\"version\":\"1\"}}}";
static const char initialized[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
static const char list[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}";

struct target {
	const char *tool;
	/* stdio */
	char **argv;
	int in, out;
	/* http */
	const char *host, *address, *port, *path;
	char session[256];
	int fd;
};

static char answer[ANSWER_MAX];
static unsigned long ids = 10;

static void
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void
write_whole(int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n <= 0)
			die("write: %s", strerror(errno));
		text += n;
		len -= (size_t)n;
	}
}

static size_t
make_call(const struct target *t, char *text, size_t size)
{
	return (size_t)snprintf(text, size, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
	                        "\"arguments\":{\"text\":\"hello\"}}}", ++ids, t->tool);
}

/* ---- the server ---- */

static void
answer_line(const char *line)
{
	const char *id = strstr(line, "\"id\":"), *end;

	if (id == NULL)
		return;
	for (const char *more = id; (more = strstr(more + 1, "\"id\":")) != NULL;)
		id = more;
	id += 5;
	end = id + strcspn(id, ",}");
	printf("{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"result\":", (int)(end - id), id);
	if (strstr(line, "\"initialize\"") != NULL)
		printf("{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"loop\",\"version\":\"1\"}}");
	else if (strstr(line, "\"tools/list\"") != NULL)
		printf("{\"tools\":[{\"name\":\"echo\",\"description\":\"says it again\",\"inputSchema\":{\"type\":\"object\"}}]}");
	else
		printf("{\"content\":[{\"type\":\"text\",\"text\":\"hello\"}]}");
	printf("}\n");
	fflush(stdout);
}

static int
serve(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0)
		answer_line(line);
	return 0;
}

/* ---- a server over pipes ---- */

static void
read_line(const struct target *t)
{
	size_t len = 0;

	do {
		ssize_t n = read(t->out, answer + len, ANSWER_MAX - 1 - len);

		if (n <= 0)
			die("the server has gone");
		len += (size_t)n;
	} while (answer[len - 1] != '\n');
	answer[len] = '\0';
}

static void
say(const struct target *t, const char *text, bool wants)
{
	char line[1024];
	int len = snprintf(line, sizeof(line), "%s\n", text);

	write_whole(t->in, line, (size_t)len);
	if (wants)
		read_line(t);
}

static void
begin_stdio(struct target *t)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		die("pipe: %s", strerror(errno));
	if (fork() == 0) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		execv(t->argv[0], t->argv);
		_exit(127);
	}
	t->in = in[1];
	t->out = out[0];
	say(t, initialize, true);
	say(t, initialized, false);
}

/* ---- a server over HTTP ---- */

static int
dial(const struct target *t)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(t->port)) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (inet_pton(AF_INET, t->address, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("cannot connect to %s: %s", t->address, strerror(errno));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static void
post(const struct target *t, int fd, const char *text, size_t len)
{
	char request[2048];
	int n = snprintf(request, sizeof(request), "POST %s HTTP/1.1\r\nHost: %s%s%s\r\nContent-Type: application/json\r\nAccept: "
		"application/json, text/event-stream\r\n%s%s%sContent-Length: %zu\r\n\r\n%.*s", t->path, t->host,
		strcmp(t->port, "80") == 0 ? "" : ":", strcmp(t->port, "80") == 0 ? "" : t->port,
		t->session[0] != '\0' ? "Mcp-Session-Id: " : "", t->session, t->session[0] != '\0' ? "\r\n" : "", len,
		(int)len, text);

	write_whole(fd, request, (size_t)n);
}

/* Whether TEXT is a response as a whole. */
static bool
is_whole(const char *text, size_t len)
{
	const char *body = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\ncontent-length:");

	if (body == NULL)
		return false;
	if (length != NULL && length < body)
		return len - (size_t)(body + 4 - text) >= strtoul(length + 17, NULL, 10);
	if (strcasestr(text, "\r\ntransfer-encoding: chunked") != NULL)
		return len >= 5 && memcmp(text + len - 5, "0\r\n\r\n", 5) == 0;
	return true;
}

static void
check(const char *text, bool wants)
{
	if (strncmp(text, "HTTP/1.1 20", 11) != 0 || (wants && strstr(text, "\"result\"") == NULL))
		die("the server said: %.600s", text);
}

static void
hear(int fd, bool wants)
{
	size_t len = 0;

	do {
		ssize_t n = read(fd, answer + len, ANSWER_MAX - 1 - len);

		if (n <= 0)
			die("the connection broke after %zu bytes", len);
		len += (size_t)n;
		answer[len] = '\0';
	} while (!is_whole(answer, len));
	check(answer, wants);
}

static void
begin_http(struct target *t)
{
	const char *id;

	t->fd = dial(t);
	t->session[0] = '\0';
	post(t, t->fd, initialize, strlen(initialize));
	hear(t->fd, true);
	id = strcasestr(answer, "\r\nmcp-session-id:");
	if (id != NULL)
		sscanf(id + 17, " %255[^\r\n]", t->session);
	post(t, t->fd, initialized, strlen(initialized));
	hear(t->fd, false);
}

/* ---- targets ---- */

static size_t
read_targets(int argc, char **argv, struct target targets[TARGETS_MAX])
{
	const char *sep = argv[0];
	size_t n = 0;

	for (int i = 1; i < argc && n < TARGETS_MAX; n++) {
		struct target *t = &targets[n];
		int first = i;

		while (i < argc && strcmp(argv[i], sep) != 0)
			i++;
		argv[i++] = NULL;
		*t = (struct target){ .tool = argv[first + 1], .argv = argv + first + 2 };
		if (strcmp(argv[first], "http") == 0)
			*t = (struct target){ .host = argv[first + 1], .address = argv[first + 2], .port = argv[first + 3],
			                      .path = argv[first + 4], .tool = argv[first + 5] };
		if (t->host != NULL)
			begin_http(t);
		else
			begin_stdio(t);
	}
	return n;
}

static void
call(const struct target *t)
{
	char text[512];
	size_t len = make_call(t, text, sizeof(text));

	if (t->host == NULL) {
		say(t, text, true);
		if (strstr(answer, "\"result\"") == NULL)
			die("the server said: %.600s", answer);
		return;
	}
	post(t, t->fd, text, len);
	hear(t->fd, true);
}

/* ---- commands ---- */

static int
measure(long rounds, long warmup, const struct target *targets, size_t n)
{
	for (long i = 0; i < rounds + warmup; i++)
		for (size_t k = 0; k < n; k++) {
			int64_t begin = now();

			call(&targets[k]);
			if (i >= warmup)
				printf("%zu %lld\n", k, (long long)(now() - begin));
		}
	return 0;
}

struct link {
	int fd;
	size_t len;
	char text[8192];
};

static void
ask(const struct target *t, struct link *l)
{
	char text[512];
	size_t len = make_call(t, text, sizeof(text));

	l->len = 0;
	post(t, l->fd, text, len);
}

static int
load(int64_t ms, long n, const struct target *t)
{
	static struct link links[LINKS_MAX];
	struct pollfd fds[LINKS_MAX];
	int64_t begin, end;
	long done = 0;

	for (long i = 0; i < n; i++) {
		links[i].fd = dial(t);
		fds[i] = (struct pollfd){ .fd = links[i].fd, .events = POLLIN };
	}
	begin = now();
	end = begin + ms * 1000000;
	for (long i = 0; i < n; i++)
		ask(t, &links[i]);
	while (now() < end && poll(fds, (nfds_t)n, 1000) > 0)
		for (long i = 0; i < n; i++) {
			struct link *l = &links[i];
			ssize_t got = fds[i].revents == 0 ? 0 : read(l->fd, l->text + l->len, sizeof(l->text) - 1 - l->len);

			if (fds[i].revents != 0 && got <= 0)
				die("a connection broke");
			l->len += (size_t)got;
			l->text[l->len] = '\0';
			if (got == 0 || !is_whole(l->text, l->len))
				continue;
			check(l->text, true);
			done++;
			ask(t, l);
		}
	printf("%ld %lld\n", done, (long long)(now() - begin));
	return 0;
}

static int
hold(long sessions, struct target *t)
{
	long tools = 0;

	for (long i = 0; i < sessions; i++) {
		if (i > 0)
			begin_http(t);
		post(t, t->fd, list, strlen(list));
		hear(t->fd, true);
		for (const char *at = answer; (at = strstr(at, "inputSchema")) != NULL; at++)
			tools++;
	}
	printf("%ld\n", tools);
	fflush(stdout);
	while (read(0, answer, 1) > 0)
		;
	return 0;
}

int
main(int argc, char **argv)
{
	struct target targets[TARGETS_MAX];
	size_t n;

	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc > 5 && strcmp(argv[1], "time") == 0) {
		n = read_targets(argc - 4, argv + 4, targets);
		return measure(atol(argv[2]), atol(argv[3]), targets, n);
	}
	if (argc > 5 && strcmp(argv[1], "load") == 0 && atol(argv[3]) <= LINKS_MAX) {
		(void)read_targets(argc - 4, argv + 4, targets);
		return load(atol(argv[2]), atol(argv[3]), &targets[0]);
	}
	if (argc > 4 && strcmp(argv[1], "list") == 0) {
		(void)read_targets(argc - 3, argv + 3, targets);
		return hold(atol(argv[2]), &targets[0]);
	}
	die("usage: mcp_loop serve | time ROUNDS WARMUP SEP TARGET... | load MILLISECONDS LINKS SEP TARGET | list SESSIONS SEP TARGET");
}
