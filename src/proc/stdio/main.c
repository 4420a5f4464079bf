/* main.c - cloister-stdio: MCP over standard input and output for programs in a cell, in front of an MCP server that
 * speaks HTTP: the gateway to the cell's own tools, or URL.
 *
 *   /run/cloister/cloister-tools [URL [VARIABLE]]
 *
 * It runs in the cell with the agent's rights and no others.  It is static, and asks the gate's proxy for everything,
 * so it needs neither libraries nor name servers.  If VARIABLE (MCP_TOKEN) is set, it shows that token. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "http/h1.h"

#define PLACE "/run/cloister/cloister-tools"
#define GATEWAY "http://" CELL_NET_TOOLS_NAME "/mcp"
#define MESSAGE_MAX (8u << 20)          /* bytes of one message, either way */
#define WAYS_MAX 64                     /* requests at once */
#define PIECE (64 * 1024)
#define AGAIN_MS 1000                   /* before the stream of the server is asked for again */
#define SESSION_MAX 512

struct way {
	int fd;                         /* -1: unused */
	bool listens, streams, begins;  /* GET; an answer of events; the answer to `initialize` */
	uint16_t status;
	json_t *id;                     /* of the request; NULL: none */
	struct h1_reader reader;
	struct buf out;                 /* not written yet */
	struct buf body;                /* JSON, or the line that is not complete */
	struct buf data;                /* of the event that is not complete */
	bool answered;
};

static struct way ways[WAYS_MAX];
static const char *url = GATEWAY, *variable = "MCP_TOKEN";
static char session[SESSION_MAX], version[64];
static bool listening, no_listening, began, input_ended;
static int64_t listen_at;
static struct buf input;

/* ---- output ---- */

/* One line: newlines between the values of JSON are blanks. */
static void
print(const char *text, size_t len)
{
	OWN(freep) char *line = malloc(len + 1);

	if (line == NULL || len == 0)
		return;
	for (size_t i = 0; i < len; i++)
		line[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
	line[len] = '\n';
	if (write_all(STDOUT_FILENO, line, len + 1, NULL) < 0)
		exit(0);
}

static void
print_error(json_t *id, const char *format, const char *text)
{
	OWN(json_decrefp) json_t *error = NULL;
	OWN(freep) char *out = NULL, *why = str_format(format, text);

	if (id == NULL || why == NULL)
		return;
	error = json_pack("{s:s, s:O, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", -32000, "message",
	                  why);
	out = error == NULL ? NULL : json_dumps(error, JSON_COMPACT);
	if (out != NULL)
		print(out, strlen(out));
}

/* ---- one request ---- */

static void
drop(struct way *w)
{
	if (w->fd < 0)
		return;
	if (w->listens) {
		listening = false;
		listen_at = io_now_ms() + AGAIN_MS;
	} else if (!w->answered) {
		print_error(w->id, "%s", "the connection to the server broke");
	}
	closep(&w->fd);
	w->fd = -1;
	json_decref(TAKE(w->id));
	h1_reader_free(&w->reader);
	buf_free(&w->out);
	buf_free(&w->body);
	buf_free(&w->data);
}

static int
dial(void)
{
	struct sockaddr_in gate = { .sin_family = AF_INET, .sin_port = htons(CELL_NET_PROXY_PORT) };
	OWN(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, CELL_NET_GATE4, &gate.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&gate, sizeof(gate)) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -1;
	return TAKE_FD(fd);
}

static struct way *
free_way(void)
{
	for (size_t i = 0; i < WAYS_MAX; i++)
		if (ways[i].fd < 0)
			return &ways[i];
	return NULL;
}

static void
put_head(struct buf *b, const char *method, size_t len)
{
	const char *host = strstr(url, "://") + 3, *token = getenv(variable);
	OWN(freep) char *head = str_format("%s %s HTTP/1.1\r\nHost: %.*s\r\nConnection: close\r\nAccept: "
		"application/json, text/event-stream\r\n%s%s%s%s%s%s%s%s%s", method, url, (int)strcspn(host, "/?#"), host,
		len > 0 ? "Content-Type: application/json\r\n" : "",
		session[0] != '\0' ? "Mcp-Session-Id: " : "", session, session[0] != '\0' ? "\r\n" : "",
		version[0] != '\0' ? "MCP-Protocol-Version: " : "", version, version[0] != '\0' ? "\r\n" : "",
		token != NULL ? "Authorization: Bearer " : "", token != NULL ? token : "");
	char length[64];

	snprintf(length, sizeof(length), "%sContent-Length: %zu\r\n\r\n", token != NULL ? "\r\n" : "", len);
	buf_put_text(b, head != NULL ? head : "");
	buf_put_text(b, length);
}

static struct way *
ask(const char *method, const char *text, size_t len, json_t *id)
{
	struct way *w = free_way();
	int fd = w == NULL ? -1 : dial();

	if (fd < 0) {
		print_error(id, "%s", "the server cannot be reached");
		return NULL;
	}
	*w = (struct way){ .fd = fd, .id = json_incref(id) };
	h1_reader_init(&w->reader, H1_RESPONSES);
	buf_init(&w->out, MESSAGE_MAX + PIECE);
	buf_init(&w->body, MESSAGE_MAX);
	buf_init(&w->data, MESSAGE_MAX);
	put_head(&w->out, method, len);
	buf_put(&w->out, text, len);
	return w;
}

/* ---- its answer ---- */

static void
note_version(const char *text, size_t len)
{
	OWN(json_decrefp) json_t *m = json_loadb(text, len, 0, NULL);
	const char *agreed = json_string_value(json_object_get(json_object_get(m, "result"), "protocolVersion"));

	if (agreed != NULL && strlen(agreed) < sizeof(version) && strspn(agreed, "0123456789-") == strlen(agreed))
		snprintf(version, sizeof(version), "%s", agreed);
}

static void
take_message(struct way *w, const char *text, size_t len)
{
	if (w->begins)
		note_version(text, len);
	w->answered = true;
	print(text, len);
}

static void
take_line(struct way *w, const char *line, size_t len)
{
	if (len > 0 && line[len - 1] == '\r')
		len--;
	if (len == 0) {
		if (w->data.len > 0)
			take_message(w, (char *)w->data.data, w->data.len);
		buf_reset(&w->data);
	} else if (len >= 5 && memcmp(line, "data:", 5) == 0) {
		size_t from = len > 5 && line[5] == ' ' ? 6 : 5;

		if (w->data.len > 0)
			buf_put(&w->data, "\n", 1);
		buf_put(&w->data, line + from, len - from);
	}
}

static void
take_body(struct way *w, struct http_text piece)
{
	const char *end;

	while (w->streams && (end = memchr(piece.at, '\n', piece.len)) != NULL) {
		size_t n = (size_t)(end - piece.at);

		buf_put(&w->body, piece.at, n);
		if (!buf_failed(&w->body))
			take_line(w, (char *)w->body.data, w->body.len);
		buf_reset(&w->body);
		piece.at += n + 1;
		piece.len -= n + 1;
	}
	buf_put(&w->body, piece.at, piece.len);
}

static void
take_head(struct way *w)
{
	const struct http_head *head = &w->reader.head;
	struct http_text id = http_head_get(head, "mcp-session-id"), type = http_head_get(head, "content-type");

	w->status = head->status;
	w->streams = http_text_has_nocase(type, "text/event-stream");
	if (w->begins && id.len > 0 && id.len < sizeof(session))
		snprintf(session, sizeof(session), "%.*s", (int)id.len, id.at);
	if (w->listens && w->status != 200)
		no_listening = true;
	if (w->begins)
		began = true;
}

/* A refusal has its reason in JSON, whoever refused. */
static void
take_refusal(struct way *w)
{
	OWN(json_decrefp) json_t *m = json_loadb((char *)w->body.data, w->body.len, 0, NULL);
	const json_t *error = json_object_get(m, "error");
	const char *why = json_string_value(json_object_get(error, "message"));
	char text[64];

	if (json_object_get(m, "jsonrpc") != NULL && w->id != NULL && json_equal(json_object_get(m, "id"), w->id)) {
		take_message(w, (char *)w->body.data, w->body.len);
		return;
	}
	if (why == NULL)
		why = json_string_value(json_object_get(m, "reason"));
	if (why == NULL)
		why = json_string_value(error);
	snprintf(text, sizeof(text), "the server answered with status %u", w->status);
	w->answered = true;
	print_error(w->id, "%s", why != NULL ? why : text);
}

static void
take_end(struct way *w)
{
	if (w->status >= 300 && !w->listens)
		take_refusal(w);
	else if (!w->streams && w->body.len > 0 && !w->listens)
		take_message(w, (char *)w->body.data, w->body.len);
	if (w->id == NULL)
		w->answered = true;
	drop(w);
}

static void
take(struct way *w, const char *data, size_t len)
{
	struct http_text piece;
	size_t used;

	for (; w->fd >= 0; data += used, len -= used)
		switch (h1_read(&w->reader, data, len, &used, &piece, NULL)) {
		case H1_HEAD:
			if (w->reader.head.status >= 200)
				take_head(w);
			break;
		case H1_BODY:
			take_body(w, piece);
			break;
		case H1_END:
			take_end(w);
			return;
		case H1_MORE:
			return;
		default:
			drop(w);
			return;
		}
}

static void
way_ready(struct way *w, short events)
{
	static char piece[PIECE];
	ssize_t n;

	if ((events & POLLOUT) != 0 && buf_left(&w->out) > 0) {
		n = send(w->fd, w->out.data + w->out.pos, buf_left(&w->out), MSG_NOSIGNAL);
		if (n > 0)
			w->out.pos += (size_t)n;
		else if (errno != EAGAIN)
			drop(w);
		return;
	}
	if ((events & (POLLIN | POLLHUP | POLLERR)) == 0)
		return;
	n = recv(w->fd, piece, sizeof(piece), 0);
	if (n > 0)
		take(w, piece, (size_t)n);
	else if (n == 0 && h1_read_eof(&w->reader, NULL) == H1_END)
		take_end(w);
	else if (n == 0 || errno != EAGAIN)
		drop(w);
}

/* ---- input ---- */

static void
take_input(const char *line, size_t len)
{
	OWN(json_decrefp) json_t *m = json_loadb(line, len, 0, NULL);
	const char *method = json_string_value(json_object_get(m, "method"));
	struct way *w;

	if (len == 0 || strspn(line, " \t\r") >= len)
		return;
	w = ask("POST", line, len, method != NULL ? json_object_get(m, "id") : NULL);
	if (w != NULL && method != NULL && strcmp(method, "initialize") == 0)
		w->begins = true;
	if (method != NULL && strcmp(method, "notifications/initialized") == 0)
		listen_at = 1;
}

/* `initialize` has its answer before anything else is sent: it has the session's id. */
static bool
is_held(void)
{
	if (free_way() == NULL)
		return true;
	for (size_t i = 0; i < WAYS_MAX; i++)
		if (ways[i].fd >= 0 && ways[i].begins)
			return true;
	return false;
}

static void
feed(void)
{
	char *end;

	while (!is_held() && buf_left(&input) > 0 &&
	       (end = memchr(input.data + input.pos, '\n', buf_left(&input))) != NULL) {
		const char *line = (char *)input.data + input.pos;

		take_input(line, (size_t)(end - line));
		input.pos += (size_t)(end - line) + 1;
	}
	if (input.pos > 0) {
		memmove(input.data, input.data + input.pos, buf_left(&input));
		input.len -= input.pos;
		input.pos = 0;
	}
}

static void
input_ready(void)
{
	static char piece[PIECE];
	ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));

	if (n > 0)
		buf_put(&input, piece, (size_t)n);
	if (n > 0 && buf_failed(&input)) {
		fprintf(stderr, "cloister-tools: a message is over 8 MiB\n");
		exit(1);
	}
	if (n == 0 || (n < 0 && errno != EINTR))
		input_ended = true;
}

static bool
is_busy(void)
{
	for (size_t i = 0; i < WAYS_MAX; i++)
		if (ways[i].fd >= 0 && !ways[i].listens)
			return true;
	return false;
}

/* The stream for what the server says by itself; some have none. */
static void
listen_again(void)
{
	struct way *w;

	if (!began || listening || no_listening || listen_at == 0 || io_now_ms() < listen_at)
		return;
	w = ask("GET", "", 0, NULL);
	listening = w != NULL;
	if (w != NULL)
		w->listens = true;
	else
		listen_at = io_now_ms() + AGAIN_MS;
}

static void
turn(void)
{
	struct pollfd fds[WAYS_MAX + 1];

	for (size_t i = 0; i < WAYS_MAX; i++)
		fds[i] = (struct pollfd){ .fd = ways[i].fd,
			.events = (short)(buf_left(&ways[i].out) > 0 ? POLLIN | POLLOUT : POLLIN) };
	fds[WAYS_MAX] = (struct pollfd){ .fd = input_ended || is_held() ? -1 : STDIN_FILENO, .events = POLLIN };
	if (poll(fds, WAYS_MAX + 1, listen_at != 0 && !listening && !no_listening ? AGAIN_MS / 4 : -1) < 0)
		return;
	for (size_t i = 0; i < WAYS_MAX; i++)
		if (fds[i].fd >= 0 && fds[i].revents != 0)
			way_ready(&ways[i], fds[i].revents);
	if (fds[WAYS_MAX].revents != 0)
		input_ready();
}

static bool
is_in_cell(void)
{
	char path[sizeof(PLACE) + 1];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

	return n == (ssize_t)strlen(PLACE) && memcmp(path, PLACE, (size_t)n) == 0;
}

int
main(int argc, char **argv)
{
	if (argc > 3 || (argc >= 2 && strncmp(argv[1], "http://", 7) != 0 && strncmp(argv[1], "https://", 8) != 0)) {
		fprintf(stderr, "usage: cloister-tools [URL [VARIABLE]]: MCP over standard input and output, for the server at URL, or for "
		        "the tools of this cell\n");
		return 2;
	}
	url = argc >= 2 ? argv[1] : GATEWAY;
	variable = argc == 3 ? argv[2] : variable;
	/* Elsewhere nothing may answer at the gate's address, ever. */
	if (!is_in_cell()) {
		fprintf(stderr, "cloister-stdio is for programs in a cell with tools, at " PLACE "\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	buf_init(&input, MESSAGE_MAX + PIECE);
	for (size_t i = 0; i < WAYS_MAX; i++)
		ways[i].fd = -1;
	while (!input_ended || is_busy() || buf_left(&input) > 0) {
		size_t before = buf_left(&input);

		feed();
		listen_again();
		if (input_ended && !is_busy() && before == buf_left(&input))
			break;
		turn();
	}
	if (session[0] != '\0' && ask("DELETE", "", 0, NULL) != NULL)
		while (is_busy())
			turn();
	return 0;
}
