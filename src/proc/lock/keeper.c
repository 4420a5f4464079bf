/* keeper.c - what the commands share: the servers, the lock, the worker. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "policy/policy_yaml.h"
#include "proc/lock/lock_proc.h"
#include "trust/trust.h"

#define FILE_DEFAULT "cloister.yaml"
#define SPARE_MS 30000                  /* for the worker, beyond what a question may take */

/* ---- parts ---- */

pid_t
part_spawn(const char *name, const int *fds, size_t n_fds, struct err *err)
{
	struct spawn_fd given[4];
	char *env[2] = { NULL };
	pid_t pid;

	for (size_t i = 0; i < n_fds && i < ARRAY_LEN(given); i++)
		given[i] = (struct spawn_fd){ fds[i], LOCK_CHANNEL_FD + (int)i };
#ifdef CLOISTER_MUTANT
	if (getenv("CLOISTER_OFF") != NULL && asprintf(&env[0], "CLOISTER_OFF=%s", getenv("CLOISTER_OFF")) < 0)
		return err_set(err, ENOMEM, "out of memory");
#endif
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char *)(uintptr_t)name, NULL }, .path = "/proc/self/exe",
	                                   .env = env, .fds = given, .n_fds = n_fds, .flags = SPAWN_DIES | SPAWN_ONLY },
	                  NULL, err);
	free(env[0]);
	return pid;
}

int
keeper_text_fd(const char *text, size_t len, struct err *err)
{
	OWN(closep) int fd = memfd_create("lock", MFD_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot make a file in memory");
	if (write_all(fd, text, len, err) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot write a file in memory");
	return TAKE_FD(fd);
}

/* ---- the worker ---- */

static int
hear_chunks(struct keeper *k, int64_t deadline, struct buf *ret_text, uint64_t *ret_number, struct err *err)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message m = {0};
		const char *why;
		int r = io_await(k->channel, deadline);

		if (r < 0)
			return err_set(err, -r, "the process that reads servers' answers does not answer");
		r = ipc_receive(k->channel, &m, err);
		if (r < 0)
			return err_set(err, EPIPE, "the process that reads servers' answers has ended");
		if (m.type == LOCK_CHUNK) {
			if (ret_text != NULL)
				buf_put(ret_text, m.body.data + m.body.pos, buf_left(&m.body));
			continue;
		}
		if (m.type == LOCK_FAILED && buf_get_str(&m.body, &why) == 0)
			return err_set(err, EPROTO, "%s", why);
		return m.type == LOCK_DONE && buf_get_u64(&m.body, ret_number) == 0 ? 0 :
		       err_set(err, EBADMSG, "the process that reads servers' answers answered nonsense");
	}
}

int
keeper_ask(struct keeper *k, const struct buf *question, const int *fds, size_t n_fds, int64_t timeout_ms,
           struct buf *ret_text, uint64_t *ret_number, struct err *err)
{
	uint64_t unused;
	int r = ipc_send(k->channel, question, fds, n_fds, err);

	return r < 0 ? r : hear_chunks(k, io_now_ms() + timeout_ms + SPARE_MS, ret_text,
	                               ret_number != NULL ? ret_number : &unused, err);
}

static int
start_worker(struct keeper *k, struct err *err)
{
	OWN(closep) int theirs = -1, text = -1;
	OWN(buf_free) struct buf b = {0};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot make a channel");
	k->channel = pair[0];
	theirs = pair[1];
	k->worker = part_spawn(WORKER_NAME, &theirs, 1, err);
	if (k->worker < 0)
		return (int)k->worker;
	text = keeper_text_fd(k->lock_text, k->lock_len, err);
	if (text < 0)
		return text;
	ipc_begin(&b, LOCK_BEGIN);
	buf_put_str(&b, k->lock_path);
	return keeper_ask(k, &b, &text, 1, 0, NULL, NULL, err);
}

/* ---- files ---- */

/* A hook would run a program of the project, before a person has looked at it. */
static int
refuse_hook(void *arg, const struct node *node, const struct policy_hook *hook, struct err *err)
{
	(void)arg, (void)hook;
	return node_err(err, node, "a server's policy can have no `hook` here, because it runs programs on this machine: "
	                "remove it");
}

bool
keeper_policy_has(const struct policy_tools_server *server, const char *key)
{
	OWN(node_freep) struct node *root = NULL;

	if (*server->policy == '\0')
		return false;
	return node_parse("", server->policy, strlen(server->policy), &root, NULL) < 0 || root->kind != NODE_MAP ||
	       node_get(root, key) != NULL;
}

/* So does a runtime. */
static int
refuse_runtimes(const struct keeper *k, struct err *err)
{
	for (size_t i = 0; i < k->tools->n_servers; i++)
		if (keeper_policy_has(&k->tools->servers[i], "runtime"))
			return err_set(err, EPERM, "'%s': the policy of the server '%s' can have no `runtime` here, because that runs on "
			               "this machine: remove it", k->file, k->tools->servers[i].name);
	return 0;
}

/* A policy of the servers alone: no rule is needed to start them, and the lock may not be there yet. */
static int
load_servers(struct keeper *k, const char *text, size_t len, const char **ret_lock, struct err *err)
{
	static char version[] = "version", one[] = "1", tools_key[] = "tools";
	struct node key_version = { .kind = NODE_SCALAR, .text = version, .plain = true, .file = k->file, .line = 1 };
	struct node value_version = { .kind = NODE_SCALAR, .text = one, .plain = true, .file = k->file, .line = 1 };
	struct node key_tools = { .kind = NODE_SCALAR, .text = tools_key, .plain = true, .file = k->file, .line = 1 };
	struct node *keys[] = { &key_version, &key_tools }, *values[] = { &value_version, NULL };
	struct node top = { .kind = NODE_MAP, .file = k->file, .line = 1, .items = keys, .values = values, .n = 2 };
	static const struct policy_reader reader = { .hook = refuse_hook };
	OWN(node_freep) struct node *root = NULL;
	struct node *tools;
	int r = node_parse(k->file, text, len, &root, err);

	if (r < 0)
		return r;
	tools = (struct node *)(uintptr_t)(root->kind == NODE_MAP ? node_get(root, "tools") : NULL);
	if (tools == NULL || tools->kind != NODE_MAP)
		return err_set(err, ENOENT, "'%s' has no `tools`: write the servers there, or take them over with `cloister tools "
		               "import`", k->file);
	for (size_t i = 0; i < tools->n; i++)
		if (strcmp(tools->items[i]->text, "lock") == 0) {
			k->names_lock = true;
			*ret_lock = tools->values[i]->kind == NODE_SCALAR ? strdup(tools->values[i]->text) : NULL;
			tools->n--;
			memmove(&tools->items[i], &tools->items[i + 1], (tools->n - i) * sizeof(*tools->items));
			memmove(&tools->values[i], &tools->values[i + 1], (tools->n - i) * sizeof(*tools->values));
		}
	values[1] = tools;
	r = policy_load_node(&top, &reader, &k->policy, NULL, err);
	k->tools = r == 0 ? policy_tools_of(k->policy) : NULL;
	if (r == 0 && k->tools == NULL)
		r = err_set(err, EINVAL, "'%s' has no servers", k->file);
	return r < 0 ? r : refuse_runtimes(k, err);
}

static int
find_folder(struct keeper *k, struct err *err)
{
	OWN(freep) char *path = realpath(k->file, NULL);

	if (path == NULL)
		return err_errno(err, "cannot open '%s'", k->file);
	k->folder = strdup(dirname(path));
	return k->folder != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int
read_lock(struct keeper *k, const char *named, struct err *err)
{
	const char *option = args_get(k->args, "lock");
	struct err why = {0};
	int r;

	k->lock_path = option != NULL ? strdup(option) : named != NULL && named[0] == '/' ? strdup(named) :
	               str_format("%s/%s", k->folder, named != NULL ? named : LOCK_FILE);
	if (k->lock_path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (access(k->lock_path, F_OK) < 0 && errno == ENOENT) {
		k->lock_text = strdup("");
		return 0;
	}
	r = trust_read(TRUST_POLICY, k->lock_path, LOCK_MAX, &k->lock_text, &k->lock_len, &why);
	if (r < 0)
		return err_set(err, -r, "%s", why.text);
	return lock_read(k->lock_path, k->lock_text, k->lock_len, &k->lock, err);
}

static int
read_files(struct keeper *k, struct err *err)
{
	OWN(freep) char *text = NULL;
	OWN(freep) const char *lock = NULL;
	size_t len;
	int r;

	if (args_get(k->args, "policy") == NULL && access(k->file, F_OK) < 0 && errno == ENOENT)
		return err_set(err, ENOENT, "there is no '%s' here: `cloister tools import` takes servers over from .mcp.json, and -p "
		               "names another policy", k->file);
	r = trust_read(TRUST_POLICY, k->file, POLICY_FILE_MAX, &text, &len, err);

	r = r == 0 ? find_folder(k, err) : r;
	r = r == 0 ? load_servers(k, text, len, &lock, err) : r;
	return r == 0 ? read_lock(k, lock, err) : r;
}

static int
make_temporary(struct keeper *k, struct err *err)
{
	const char *folder = getenv("TMPDIR");
	int n = snprintf(k->temporary, sizeof(k->temporary), "%s/cloister-tools-XXXXXX",
	                 folder != NULL && folder[0] == '/' ? folder : "/tmp");

	if (n < 0 || (size_t)n >= sizeof(k->temporary) || mkdtemp(k->temporary) == NULL) {
		k->temporary[0] = '\0';
		return err_errno(err, "cannot make a temporary folder");
	}
	return 0;
}

int
keeper_open(struct keeper *k, const struct args *args, struct err *err)
{
	const char *file = args_get(args, "policy");
	int r;

	*k = (struct keeper){ .args = args, .file = file != NULL ? file : FILE_DEFAULT, .channel = -1,
	                      .home = getenv("HOME") != NULL ? getenv("HOME") : "/" };
	r = read_files(k, err);
	r = r == 0 ? keeper_check_words(k, err) : r;
	r = r == 0 ? make_temporary(k, err) : r;
	return r == 0 ? start_worker(k, err) : r;
}

static void
remove_temporary(struct keeper *k)
{
	static const char *const names[] = { "policy.yaml", "cert.pem", "key.pem" };
	OWN(closep) int dir = *k->temporary != '\0' ? open(k->temporary, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (dir < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(dir, names[i], 0);
	(void)unlinkat(dir, "work", AT_REMOVEDIR);
	(void)rmdir(k->temporary);
}

void
keeper_close(struct keeper *k)
{
	if (k->channel >= 0)
		close(k->channel);
	if (k->worker > 0)
		(void)spawn_await(k->worker, NULL);
	remove_temporary(k);
	policy_free(k->policy);
	lock_free(&k->lock);
	free(k->folder);
	free(k->lock_path);
	free(k->lock_text);
}

bool
keeper_wants(const struct keeper *k, const char *server)
{
	for (size_t i = 0; i < k->args->n_words; i++)
		if (strcmp(k->args->words[i], server) == 0)
			return true;
	return k->args->n_words == 0;
}

int
keeper_check_words(const struct keeper *k, struct err *err)
{
	for (size_t i = 0; i < k->args->n_words; i++)
		if (policy_tools_server(k->tools, k->args->words[i], strlen(k->args->words[i])) == NULL)
			return err_set(err, ENOENT, "'%s' has no server '%s'", k->file, k->args->words[i]);
	return 0;
}

int
keeper_write(const char *path, const void *data, size_t len, struct err *err)
{
	OWN(freep) char *beside = str_format("%s.new", path);
	OWN(closep) int fd = beside != NULL ? open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644) : -1;
	int r;

	if (fd < 0)
		return err_errno(err, "cannot write '%s'", path);
	r = write_all(fd, data, len, err);
	if (r == 0 && (fsync(fd) < 0 || rename(beside, path) < 0))
		r = err_errno(err, "cannot write '%s'", path);
	if (r < 0)
		(void)unlink(beside);
	return r;
}

int
keeper_findings(struct keeper *k, struct check_findings *f, struct err *err)
{
	OWN(buf_free) struct buf b, text = BUF(LOCK_MAX);
	int r;

	ipc_begin(&b, LOCK_FINDINGS);
	r = keeper_ask(k, &b, NULL, 0, 0, &text, NULL, err);
	return r < 0 ? r : check_get(&text, f, err);
}
