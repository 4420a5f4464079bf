/* upstream.c - stands in for the services that a server uses, so that a call can be observed to its end.
 *
 * It answers requests of a hostile server, over TLS, in a process that has a listening socket and nothing else.  The
 * answers are those that an example lists; any other request gets {}. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "ipc/lock_channel.h"
#include "loop/loop.h"
#include "policy/policy_yaml.h"
#include "proc/lock/lock_proc.h"
#include "serve/serve.h"

#define ANSWERS_MAX 64
#define SCRIPT_MAX (4u << 20)
#define REQUEST_MAX (1u << 20)

enum { LISTENER_FD = LOCK_CHANNEL_FD, FOLDER_FD, SCRIPT_FD };

/* ---- the keeper's side: the answers of an example ---- */

static const char *
word_of(const struct node *map, const char *name, const char *otherwise)
{
	const struct node *value = node_get(map, name);

	return value != NULL && value->kind == NODE_SCALAR ? value->text : otherwise;
}

/* {request: GET https://host/path, status: 200, body: ...} */
static int
put_answer(struct buf *b, const struct node *node, struct err *err)
{
	const struct node *body = node->kind == NODE_MAP ? node_get(node, "body") : NULL;
	OWN(json_decrefp) json_t *value = body != NULL ? lock_node_json(body) : json_object();
	OWN(freep) char *text = NULL;
	const char *request = node->kind == NODE_MAP ? word_of(node, "request", "") : "", *space = strchr(request, ' ');
	const char *path = space != NULL ? strstr(space, "://") : NULL;
	uint64_t status;

	path = path != NULL ? strchr(path + 3, '/') : NULL;
	if (path == NULL)
		return node_err(err, node, "an answer of `upstream` has a request: {request: GET https://api.example.com/items, body: "
		                "[]}");
	if (num_parse_count(word_of(node, "status", "200"), 100, 599, &status, NULL) < 0)
		return node_err(err, node, "the `status` of an answer is a number from 100 to 599");
	text = json_is_string(value) ? strdup(json_string_value(value)) : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	buf_put_u32(b, (uint32_t)status);
	buf_put_str(b, word_of(node, "type", json_is_string(value) ? "text/plain" : "application/json"));
	buf_put_str(b, request);
	buf_put_u32(b, (uint32_t)(space - request));
	buf_put_u32(b, (uint32_t)(path - request));
	buf_put_str(b, text);
	return 0;
}

static int
make_script(const struct node *example, struct err *err)
{
	const struct node *answers = example != NULL && example->kind == NODE_MAP ? node_get(example, "upstream") : NULL;
	OWN(buf_free) struct buf b = BUF(SCRIPT_MAX);
	int r = 0;

	for (size_t i = 0; r == 0 && answers != NULL && answers->kind == NODE_LIST && i < answers->n; i++)
		r = i < ANSWERS_MAX ? put_answer(&b, answers->items[i], err) :
		    node_err(err, answers, "an example has at most %d answers", ANSWERS_MAX);
	if (r < 0)
		return r;
	return buf_failed(&b) ? err_set(err, E2BIG, "the answers of an example are over %u MiB", SCRIPT_MAX >> 20) :
	       keeper_text_fd((const char *)b.data, b.len, err);
}

/* The certificate is made once, and used by all. */
static int
make_certificate(int folder, struct err *err)
{
	char print[SERVE_PRINT_MAX];
	struct ssl_ctx_st *tls = NULL;
	int r = serve_tls_own(folder, NULL, &tls, print, err);

	if (r == 0)
		SSL_CTX_free(tls);
	return r;
}

int
upstream_start(struct keeper *k, const struct node *example, struct upstream *ret_upstream, struct err *err)
{
	OWN(closep) int listener = -1, folder = open(k->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC), script = -1;
	struct upstream u = {0};
	int r = folder < 0 ? err_errno(err, "cannot open '%s'", k->temporary) : make_certificate(folder, err);

	if (r < 0)
		return r;
	if (snprintf(u.ca, sizeof(u.ca), "%s/cert.pem", k->temporary) >= (int)sizeof(u.ca))
		return err_set(err, ENAMETOOLONG, "the name of the temporary folder is too long");
	listener = serve_listen_tcp("127.0.0.1:0", &u.port, err);
	if (listener < 0)
		return listener;
	script = make_script(example, err);
	if (script < 0)
		return script;
	u.pid = part_spawn(UPSTREAM_NAME, (int[]){ listener, folder, script }, 3, err);
	if (u.pid < 0)
		return (int)u.pid;
	*ret_upstream = u;
	return 0;
}

int
upstream_stop(struct upstream *u, struct err *err)
{
	const bool has_ended = waitpid(u->pid, NULL, WNOHANG) != 0;

	if (!has_ended) {
		(void)kill(u->pid, SIGKILL);
		(void)waitpid(u->pid, NULL, 0);
	}
	u->pid = 0;
	return has_ended ? err_set(err, EPIPE, "what stands in for its upstream ended") : 0;
}

/* ---- the process ---- */

static struct answer {
	uint32_t status;
	const char *type, *method, *path, *body;
	size_t method_len;
} answers[ANSWERS_MAX];
static size_t n_answers;

static int
read_script(struct err *err)
{
	static struct buf b;
	char *text = NULL;
	size_t len;
	int r = read_open(SCRIPT_FD, "the answers", SCRIPT_MAX, &text, &len, err);

	if (r < 0)
		return r;
	buf_init_borrowed(&b, text, len);       /* for good */
	while (buf_left(&b) > 0 && n_answers < ANSWERS_MAX) {
		struct answer *a = &answers[n_answers++];
		uint32_t method = 0, path = 0;

		if (buf_get_u32(&b, &a->status) < 0 || buf_get_str(&b, &a->type) < 0 || buf_get_str(&b, &a->method) < 0 ||
		    buf_get_u32(&b, &method) < 0 || buf_get_u32(&b, &path) < 0 || buf_get_str(&b, &a->body) < 0)
			return err_set(err, EBADMSG, "the answers are not valid");
		a->path = a->method + path;
		a->method_len = method;
	}
	return 0;
}

/* A request without a query in the example stands for any query. */
static bool
is_asked(const struct answer *a, const struct serve_request *q)
{
	const size_t len = strlen(q->path);
	const char *query = strchr(a->path, '?');

	return a->method_len == q->head.method.len && memcmp(a->method, q->head.method.at, a->method_len) == 0 &&
	       strncmp(a->path, q->path, len) == 0 && (a->path[len] == '\0' || a->path[len] == '?') &&
	       (query == NULL || strcmp(query + 1, q->query) == 0);
}

static void
take_head(void *arg, struct serve_request *q)
{
	(void)arg;
	q->body_max = REQUEST_MAX;
}

static void
take_request(void *arg, struct serve_request *q)
{
	(void)arg;
	for (size_t i = 0; i < n_answers; i++)
		if (is_asked(&answers[i], q)) {
			serve_answer(q, answers[i].status, answers[i].type, answers[i].body, strlen(answers[i].body));
			return;
		}
	serve_answer(q, 200, "application/json", "{}", 2);
}

static void
lose(void *arg, struct serve_request *q)
{
	(void)arg;
	(void)q;
}

/* Whatever the server's requests show is for the services that this stands in for. */
static bool
let_in(void *arg, struct serve_request *q)
{
	(void)arg;
	q->role = SERVE_GUEST;
	return true;
}

static int
open_door(struct loop *loop, struct ssl_ctx_st *tls, uint16_t port, struct err *err)
{
	static const struct serve_handler handler = { .head = take_head, .request = take_request, .lost = lose };
	struct serve_door door = { .fd = LISTENER_FD, .role = SERVE_GUEST, .is_tcp = true, .takes_local_origin = true,
	                           .port = port, .judge = let_in, .judges_all = true, .tls = tls,
	                           .takes_plain = true };
	struct serve_server *server;
	int r = serve_new(loop, &handler, NULL, -1, &server, err);

	return r == 0 ? serve_open_door(server, &door, err) : r;
}

int
lock_upstream_main(void)
{
	static const struct lockdown what_is_left = { .filter = FILTER_MCP };
	char print[SERVE_PRINT_MAX];
	struct ssl_ctx_st *tls = NULL;
	struct loop *loop = NULL;
	struct err err = {0};
	uint16_t port = 0;
	bool is_tcp;
	int r = fcntl(SCRIPT_FD, F_GETFD) < 0 ? err_set(&err, EINVAL, "it is started by `cloister tools` only") :
	        read_script(&err);

	signal(SIGPIPE, SIG_IGN);
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	r = r == 0 ? serve_check_given(LISTENER_FD, &is_tcp, &port, &err) : r;
	r = r == 0 ? serve_tls_own(FOLDER_FD, NULL, &tls, print, &err) : r;
	r = r == 0 ? lockdown_enter(&what_is_left, FOLDER_FD, &err) : r;
	r = r == 0 ? loop_new(&loop, &err) : r;
	r = r == 0 ? open_door(loop, tls, port, &err) : r;
	r = r == 0 ? loop_run(loop, &err) : r;
	fprintf(stderr, "cloister-lock: %s\n", err.text);
	return 125;
}
