/* policy_bound.c - what the acceptance of a project's policy with `tools` is bound to, besides its text: the project's
 * folder, and what its servers run, read and write on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/hash.h"
#include "cli/policy.h"
#include "policy/policy.h"
#include "policy/policy_flat.h"
#include "policy/policy_tools.h"
#include "policy/policy_yaml.h"
#include "tools/server_program.h"

#define FILE_MAX (UINT64_C(1) << 30)

struct bound {
	struct buf *b;
	const struct policy_tools_server *server;
	char folder[PATH_MAX];          /* where relative paths begin, as cloister-tools has it */
	const char *home;
};

static void
put_word(struct buf *b, const char *text)
{
	char *word = (char *)(uintptr_t)text;

	buf_put_text(b, " ");
	policy_flat_put_node(b, &(struct node){ .kind = NODE_SCALAR, .text = word });
}

static void
begin_line(const struct bound *x, const char *what, const char *text)
{
	buf_put_text(x->b, "#   ");
	buf_put_text(x->b, what);
	put_word(x->b, text);
}

/* The system's own programs come from its packages: their path says enough, and they are large. */
static bool
is_systems(const char *real, const struct stat *st)
{
	return strncmp(real, "/usr/", 5) == 0 && st->st_uid == 0 && (st->st_mode & 022) == 0;
}

/* "/real/path SHA-256". */
static void
put_file(const struct bound *x, const char *path)
{
	OWN(freep) char *real = realpath(path, NULL);
	OWN(closep) int fd = real == NULL ? -1 : open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	unsigned char hash[HASH_LEN];
	char hex[2 * HASH_LEN + 1];
	struct stat st;
	uint64_t size;

	buf_put_text(x->b, " ->");
	put_word(x->b, real != NULL ? real : "nothing");
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || is_systems(real, &st) ||
	    hash_fd(fd, FILE_MAX, hash, &size, NULL) < 0) {
		buf_put_text(x->b, "\n");
		return;
	}
	codec_hex(hash, sizeof(hash), hex);
	buf_put_text(x->b, " " HASH_PREFIX);
	buf_put_text(x->b, hex);
	buf_put_text(x->b, "\n");
}

static void
put_program(const struct bound *x)
{
	char path[PATH_MAX];
	size_t word = SIZE_MAX;

	if (server_program_path(x->server, x->folder, x->home, &word, path)) {
		begin_line(x, "program", x->server->wasm != NULL ? x->server->wasm : x->server->command[word]);
		put_file(x, path);
	}
	if (x->server->wasm != NULL) {
		OWN(freep) char *list = str_format("%s.json", path);

		begin_line(x, "tools of", x->server->wasm);
		put_file(x, list != NULL ? list : "");
	}
	for (size_t i = 0; i < x->server->n_command; i++)
		if (i != word && server_program_file(x->server, x->folder, x->home, i, path)) {
			begin_line(x, "file", x->server->command[i]);
			put_file(x, path);
		}
}

static void
put_paths(const struct bound *x, const char *what, const struct policy_list *paths)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < paths->n; i++) {
		OWN(freep) char *real = policy_tools_path(paths->at[i], x->folder, x->home, path, sizeof(path), NULL) < 0 ? NULL :
		                        realpath(path, NULL);

		begin_line(x, what, paths->at[i]);
		buf_put_text(x->b, " ->");
		put_word(x->b, real != NULL ? real : "nothing");
		buf_put_text(x->b, "\n");
	}
}

static int
load(const struct buf *text, struct policy **ret_policy, struct err *err)
{
	static const struct policy_reader reader = { .hook = policy_any_hook, .may_cover = true };

	return policy_load_text_all(POLICY_CLI_FILE, (const char *)text->data, text->len, &reader, ret_policy, NULL, err);
}

int
policy_cli_put_bound(int folder, struct buf *text, struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(freep) char *link = str_format("/proc/self/fd/%d", folder);
	const char *home = getenv("HOME");
	struct bound x = { .b = text, .home = home != NULL ? home : "/" };
	char project[PATH_MAX];
	const struct policy_tools *tools;
	int r = load(text, &p, err);

	tools = r < 0 ? NULL : policy_tools_of(p);
	if (tools == NULL)
		return r;
	if (link == NULL || realpath(link, project) == NULL || getcwd(x.folder, sizeof(x.folder)) == NULL)
		return err_errno(err, "cannot find the folder of the policy");
	buf_put_text(text, text->len > 0 && text->data[text->len - 1] != '\n' ? "\n" : "");
	buf_put_text(text, "# The acceptance of `tools` holds for the project");
	put_word(text, project);
	buf_put_text(text, ", and for what is here now:\n");
	for (size_t i = 0; i < tools->n_servers; i++) {
		const struct policy_list works = { &tools->servers[i].folder, tools->servers[i].folder != NULL };

		x.server = &tools->servers[i];
		buf_put_text(text, "# server");
		put_word(text, x.server->name);
		buf_put_text(text, ":\n");
		put_program(&x);
		put_paths(&x, "folder", &works);
		put_paths(&x, "read", &x.server->read);
		put_paths(&x, "write", &x.server->write);
	}
	return buf_failed(text) ? err_set(err, E2BIG, "the policy is too large") : 0;
}
