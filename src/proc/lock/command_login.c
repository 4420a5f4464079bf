/* command_login.c - `cloister tools login`: a person logs in to a remote server; the tokens go into the vault.
 *
 * `cloister tools token` is how cloister-vault gets a token from then on: it renews the login if it must. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "cell/cell_trust.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "policy/policy_yaml.h"
#include "proc/lock/lock_proc.h"
#include "serve/serve.h"
#include "tools/server_run.h"
#include "trust/trust.h"
#include "vault/bound.h"
#include "vault/vault_request.h"

#define LOGIN_MAX (64 * 1024)           /* bytes of a login */
#define PEM_MAX (16u << 20)
#define NOWHERE "nowhere.invalid"       /* a login is never sent by a cell */
#define LOGIN_MS (15 * 60 * 1000)

/* ---- certificates ---- */

static int
read_certificates(const char *file, struct buf *pem, struct err *err)
{
	const char *instead = getenv("SSL_CERT_FILE");
	OWN(freep) char *system = NULL, *more = NULL;
	OWN(closep) int fd = -1;
	size_t len;
	int r = 0;

	if (instead != NULL && *instead != '\0')
		r = trust_read(TRUST_AUTHORITY, instead, PEM_MAX, &system, &len, err);
	else if ((fd = cell_trust_open()) >= 0)
		r = read_open(fd, "the machine's certificate authorities", PEM_MAX, &system, &len, err);
	if (r == 0 && system != NULL)
		buf_put_text(pem, system);
	if (r == 0 && file != NULL)
		r = trust_read(TRUST_AUTHORITY, file, PEM_MAX, &more, &len, err);
	if (r == 0 && more != NULL)
		buf_put_text(pem, more);
	return r == 0 && buf_failed(pem) ? err_set(err, EFBIG, "there are too many certificates") : r;
}

/* ---- the process that logs in ---- */

struct logging {
	const char *first, *client_id, *ca;
	bool is_new;
	char redirect[64];
	struct buf result;              /* the login */
};

static int
hear(int channel, struct logging *l, struct err *err)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message m = {0};
		const char *text;
		uint64_t unused;
		int r = io_await(channel, io_now_ms() + LOGIN_MS);

		r = r == 0 ? ipc_receive(channel, &m, err) : err_set(err, -r, "nobody logged in");
		if (r < 0)
			return r == -EPIPE ? err_set(err, EPIPE, "the process that logs in has ended") : r;
		if (m.type == LOCK_CHUNK) {
			buf_put(&l->result, m.body.data + m.body.pos, buf_left(&m.body));
		} else if (m.type == LOCK_VISIT && buf_get_str(&m.body, &text) == 0) {
			fputs("cloister: open this page, and log in:\n", stderr);
			text_print_safe(stderr, text, strlen(text), false);
			fputc('\n', stderr);
		} else if (m.type == LOCK_FAILED && buf_get_str(&m.body, &text) == 0) {
			return err_set(err, EPROTO, "%s", text);
		} else {
			return m.type == LOCK_DONE && buf_get_u64(&m.body, &unused) == 0 ? 0 :
			       err_set(err, EBADMSG, "the process that logs in answered nonsense");
		}
	}
}

static int
send_begin(int channel, const struct logging *l, struct err *err)
{
	OWN(buf_free) struct buf pem = BUF(PEM_MAX), b = {0};
	OWN(closep) int fd = -1;
	int r = read_certificates(l->ca, &pem, err);

	fd = r == 0 ? keeper_text_fd((const char *)pem.data, pem.len, err) : r;
	if (fd < 0)
		return fd;
	ipc_begin(&b, LOCK_LOGIN);
	b.wipes = true;
	buf_put_u32(&b, l->is_new);
	buf_put_str(&b, l->first);
	buf_put_str(&b, l->client_id);
	buf_put_str(&b, l->redirect);
	return ipc_send(channel, &b, &fd, 1, err);
}

static int
run_login(struct logging *l, struct err *err)
{
	OWN(closep) int ours = -1, theirs = -1, listener = -1;
	uint16_t port;
	int pair[2], r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot make a channel");
	ours = pair[0];
	theirs = pair[1];
	listener = serve_listen_tcp("127.0.0.1:0", &port, err);
	if (listener < 0)
		return listener;
	snprintf(l->redirect, sizeof(l->redirect), "http://127.0.0.1:%u/callback", port);
	pid = part_spawn(LOGIN_NAME, (int[]){ theirs, listener }, 2, err);
	close(TAKE_FD(theirs));
	if (pid < 0)
		return (int)pid;
	r = send_begin(ours, l, err);
	r = r == 0 ? hear(ours, l, err) : r;
	close(TAKE_FD(ours));
	(void)spawn_await(pid, NULL);
	return r;
}

/* ---- the vault ---- */

static int
run_cloister(char *const *argv, int input, struct err *err)
{
	char program[PATH_MAX];
	int r = exe_find_cloister(program, err);

	r = r < 0 ? r : spawn_run(&(struct spawn){ .argv = argv, .path = program, .n_fds = 2, .fds = (struct spawn_fd[]){
		{ input, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO } }, .flags = SPAWN_DIES }, err);
	return r > 0 ? err_set(err, EIO, "the login could not be stored in the vault") : r;
}

bool
token_is_in_vault(const char *name)
{
	char program[PATH_MAX];
	char *argv[] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "show" }, (char *)(uintptr_t)name, NULL };

	return exe_find_cloister(program, NULL) == 0 && spawn_run(&(struct spawn){ .argv = argv, .path = program, .n_fds = 2,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDOUT_FILENO }, { SPAWN_NULL, STDERR_FILENO } },
		.flags = SPAWN_DIES }, NULL) == 0;
}

/* The whole login, under NAME. */
static int
store_login(const char *name, const struct buf *login, struct err *err)
{
	char *add[] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "add" }, (char[]){ "--host=" NOWHERE },
	                (char *)(uintptr_t)name, NULL };
	char *rotate[] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "rotate" }, (char *)(uintptr_t)name, NULL };
	OWN(closep) int fd = keeper_text_fd((const char *)login->data, login->len, err);

	return fd < 0 ? fd : run_cloister(token_is_in_vault(name) ? rotate : add, fd, err);
}

/* Cells get a placeholder for the token, which is fetched by `cloister tools token`. */
static int
define_token(const char *token, const char *login, const char *url, const char *temporary, struct err *err)
{
	/* Only a server on this machine; a cell reaches it by another name. */
	const bool plain = strncmp(url, "http://", 7) == 0;
	const char *host = strstr(url, "://") + 3, *name = plain ? "host.cloister.internal" : "";
	const char *rest = plain ? host + strcspn(host, ":/?") : host;
	OWN(freep) char *path = str_format("%s/policy.yaml", temporary), *text = NULL, *file = NULL;
	char program[PATH_MAX];
	char *argv[] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "add" }, NULL, (char *)(uintptr_t)token, NULL };
	char *remove[] = { (char[]){ "cloister" }, (char[]){ "secret" }, (char[]){ "remove" }, (char *)(uintptr_t)token, NULL };
	int r = exe_find_cloister(program, err);

	/* It may be for another host, or a person's own. */
	if (r == 0 && token_is_in_vault(token))
		r = run_cloister(remove, SPAWN_NULL, err);
	if (r < 0)
		return r;
	text = str_format("version: 1\nsecrets:\n  %s:\n    hosts: ['%s%.*s']\n    in: ['header:authorization']\n%s"
	                  "    from: 'cmd:\"%s\" tools token %s'\n    members: {secret: /access_token}\n    expires: /expires\n",
	                  token, name, (int)strcspn(rest, "/?"), rest, plain ? "    plain: true\n" : "", program, login);
	file = str_format("--file=%s", path != NULL ? path : "");
	if (path == NULL || text == NULL || file == NULL)
		return err_set(err, ENOMEM, "out of memory");
	argv[3] = file;
	r = create_file_at(AT_FDCWD, path, 0600, text, err);
	return r < 0 ? r : run_cloister(argv, SPAWN_NULL, err);
}

/* ---- commands ---- */

static int
decide_replace(const struct args *args, const char *token, const char *kept, struct err *err)
{
	const char *there = token_is_in_vault(token) ? token : token_is_in_vault(kept) ? kept : NULL;
	char question[128], otherwise[160];
	int r;

	if (there == NULL || args_get(args, "yes") != NULL)
		return 0;
	snprintf(question, sizeof(question), "cloister: the vault has %s.  Replace it? [y/N] ", there);
	snprintf(otherwise, sizeof(otherwise), "the vault has %s already: --yes replaces it", there);
	r = ask_yes(question, otherwise, err);
	return r == 0 ? err_set(err, ECANCELED, "%s stays as it is", there) : r < 0 ? r : 0;
}

int
command_login(const struct args *args, struct err *err)
{
	OWN(keeper_close) struct keeper k;
	OWN(freep) char *token = NULL, *kept = NULL;
	const char *id = args_get(args, "client-id");
	struct logging l = { .is_new = true, .client_id = id != NULL ? id : "", .ca = args_get(args, "ca"),
	                     .result = BUF_SECRET(LOGIN_MAX) };
	const struct policy_tools_server *server;
	int r = keeper_open(&k, args, err);

	if (r < 0)
		return r;
	server = policy_tools_server(k.tools, args->words[0], strlen(args->words[0]));
	if (server->url == NULL)
		return err_set(err, EINVAL, "'%s' is no remote server: it has no `url`", server->name);
	token = server_run_token(server->name, "_TOKEN");
	kept = server_run_token(server->name, "_LOGIN");
	if (token == NULL || kept == NULL)
		return err_set(err, ENOMEM, "out of memory");
	l.first = server->url;
	r = decide_replace(args, token, kept, err);
	r = r < 0 ? r : run_login(&l, err);
	r = r == 0 ? store_login(kept, &l.result, err) : r;
	r = r == 0 ? define_token(token, kept, server->url, k.temporary, err) : r;
	buf_free(&l.result);
	if (r == 0)
		printf("the vault has the login as %s; give the server its token with `policy: {secrets: [%s]}`\n", kept, token);
	return r;
}

/* The value of NAME, from cloister-vault; the caller owns it. */
static int
fetch_login(const char *name, struct bound *bound, struct err *err)
{
	OWN(vault_request_free) struct vault_request q = { .verb = VAULT_VALUE, .name = "", .key = "", .n_bind = 1,
		.bind = { { .name = name, .variable = "", .files = "" } } };
	OWN(closep) int asked = memfd_create("request", MFD_CLOEXEC), value = memfd_create("value", MFD_CLOEXEC | MFD_ALLOW_SEALING),
	                others = open("/dev/null", O_RDWR | O_CLOEXEC);
	OWN(buf_free) struct buf b = BUF(VAULT_REQUEST_MAX);
	const struct spawn how = { .argv = (char *[]){ (char[]){ "cloister-vault" }, NULL }, .n_fds = 4,
		.fds = (struct spawn_fd[]){ { asked, VAULT_REQUEST_FD }, { value, VAULT_BOUND_FD }, { others, VAULT_VARIABLES_FD },
		                            { others, VAULT_FILES_FD } }, .flags = SPAWN_DIES };
	int r;

	vault_request_put(&b, &q);
	if (asked < 0 || value < 0 || others < 0 || buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	r = write_all(asked, b.data, b.len, err);
	r = r == 0 ? spawn_run(&how, err) : r;
	if (r != 0)
		return r < 0 ? r : err_set(err, ENOENT, "the vault has no login '%s'", name);
	r = bound_read(value, bound, err);
	return r < 0 ? r : bound->n == 1 ? 0 : err_set(err, EBADMSG, "the vault gave no value");
}

int
command_token(const struct args *args, struct err *err)
{
	OWN(bound_free) struct bound bound = {0};
	struct logging l = { .client_id = "", .ca = args_get(args, "ca"), .result = BUF_SECRET(LOGIN_MAX) };
	struct http_text old;
	int r;

	/* A person has no use for it, and a terminal remembers. */
	if (isatty(STDOUT_FILENO))
		return err_set(err, EPERM, "`cloister tools token` is for cloister-vault: it prints a token");
	r = fetch_login(args->words[0], &bound, err);
	if (r < 0)
		return r;
	old = bound.at[0].real[SECRET_SECRET];
	l.first = old.at;
	r = run_login(&l, err);
	if (r == 0 && (l.result.len != old.len || memcmp(l.result.data, old.at, old.len) != 0))
		r = store_login(args->words[0], &l.result, err);
	r = r == 0 ? write_all(STDOUT_FILENO, l.result.data, l.result.len, err) : r;
	buf_free(&l.result);
	return r;
}
