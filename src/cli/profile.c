/* profile.c - `cloister profile`: lists, prints, checks, writes and accepts profiles of agents. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"
#include "base/tree.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "cli/profile.h"
#include "profile/program.h"
#include "trust/trust.h"
#include "vault/secret.h"

struct profile_cli {
	bool json, all;
	const char *like;
};

const struct cli_option cli_profile_options[] = {
	{ "like", 'l', "NAME", "new: begin with a copy of this profile", CLI_TEXT(struct profile_cli, like) },
	{ "all", 'a', NULL, "forget: what it kept for all projects, and your answers",
	  CLI_FLAG(struct profile_cli, all) },
	{ "json", 0, NULL, "list, show: print JSON for programs", CLI_FLAG(struct profile_cli, json) },
	{0}
};

static const char draft[] =
	"# A profile of an agent: docs/agents.md explains the keys.\n"
	"version: 1\n"
	"about: My agent\n"
	"program: my-agent\n"
	"# args: [--yes]\n"
	"# env: {MY_AGENT_HOME: ~/.my-agent}\n"
	"allow: ['preset:anthropic']\n"
	"secrets: [ANTHROPIC_API_KEY]\n"
	"home:\n"
	"  keep: [.my-agent]\n"
	"  read: [.gitconfig]\n";

static int
no_profile(const char *name)
{
	return cli_failf("there is no profile '%.64s': see `cloister profile list`", name);
}

/* ---- list ---- */

static int
list_one(void *arg, const char *name)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	OWN(program_free) struct program program = {0};
	struct json *out = arg;
	struct err err = {0};
	const char *about;
	bool is_here;

	if (profile_cli_find(name, ".", &f, &err) < 0) {
		fprintf(stderr, "cloister: ");
		text_print_safe(stderr, err.text, strlen(err.text), false);
		fputc('\n', stderr);
		return 0;
	}
	about = f->profile->about != NULL ? f->profile->about : "";
	is_here = f->profile->image != NULL || program_find(f->profile->program, &program, NULL) == 0;
	if (out->out != NULL) {
		json_open(out, NULL, '{');
		json_str(out, "name", name);
		json_str(out, "origin", profile_cli_origin(f->origin));
		json_str(out, "file", f->file);
		json_str(out, "about", about);
		json_bool(out, "installed", is_here);
		json_bool(out, "trusted", profile_cli_is_trusted(f));
		json_close(out, '}');
		return 0;
	}
	printf("%-14s %-14s %-10s ", name, profile_cli_is_trusted(f) ? profile_cli_origin(f->origin) : "not accepted",
	       is_here ? "yes" : "no");
	text_print_safe(stdout, about, strlen(about), false);
	putchar('\n');
	return 0;
}

static int
list_all(const struct profile_cli *cli, int argc, char **argv)
{
	struct json out = { .out = cli->json ? stdout : NULL };
	struct err err = {0};
	int r;

	(void)argv;
	if (argc > 0)
		return cli_failf("`profile list` takes no arguments");
	if (cli->json)
		json_open(&out, NULL, '[');
	else
		printf("%-14s %-14s %-10s %s\n", "NAME", "FROM", "INSTALLED", "ABOUT");
	r = profile_cli_each(".", list_one, &out, &err);
	if (cli->json) {
		json_close(&out, ']');
		putchar('\n');
	}
	return r < 0 ? cli_fail(&err) : 0;
}

/* ---- show ---- */

static void
put_texts(struct json *out, const char *key, char *const *list)
{
	static const char *const none[] = { NULL };

	json_strv(out, key, list != NULL ? (const char *const *)list : none);
}

static void
show_json(const struct profile_found *f)
{
	OWN(program_free) struct program program = {0};
	OWN(freep) char *install = profile_install_words(f->profile);
	struct json out = { .out = stdout };
	const struct profile *p = f->profile;

	(void)program_find(p->program, &program, NULL);
	json_open(&out, NULL, '{');
	json_str(&out, "name", f->name);
	json_str(&out, "origin", profile_cli_origin(f->origin));
	json_str(&out, "file", f->file);
	json_str(&out, "hash", f->hash);
	json_bool(&out, "trusted", profile_cli_is_trusted(f));
	json_str(&out, "about", p->about);
	json_str(&out, "program", p->program);
	json_str(&out, "path", program.path);
	json_str(&out, "install", install);
	put_texts(&out, "args", p->args);
	put_texts(&out, "env", p->env);
	put_texts(&out, "allow", p->allow);
	json_open(&out, "secrets", '[');
	for (size_t i = 0; i < p->n_secrets; i++)
		put_texts(&out, NULL, p->secrets[i]);
	json_close(&out, ']');
	put_texts(&out, "keep", p->keep);
	put_texts(&out, "read", p->read);
	json_open(&out, "limits", '{');
	for (size_t i = 0; i < PROFILE_LIMITS; i++)
		if (p->limits[i] != NULL)
			json_str(&out, profile_limit_names[i], p->limits[i]);
	json_close(&out, '}');
	json_open(&out, "mcp", '[');
	for (size_t i = 0; i < p->mcp.n; i++)
		json_str(&out, NULL, p->mcp.servers[i].name);
	json_close(&out, ']');
	json_bool(&out, "nested", p->nested);
	json_str(&out, "image", p->image);
	json_close(&out, '}');
	putchar('\n');
}

/* A comment and the text, which is a profile again. */
static void
show_text(const struct profile_found *f)
{
	printf("# ");
	text_print_safe(stdout, f->file, strlen(f->file), false);
	printf(" (%s%s)\n", profile_cli_origin(f->origin), profile_cli_is_trusted(f) ? "" : ", not accepted");
	text_print_safe(stdout, f->text, f->len, true);
}

static int
show_one(const struct profile_cli *cli, int argc, char **argv)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	struct err err = {0};
	int r;

	if (argc != 1)
		return cli_failf("`profile show` takes the NAME of a profile");
	/* A text with errors can be shown, too. */
	r = cli->json ? profile_cli_find(argv[0], ".", &f, &err) : profile_cli_find_text(argv[0], ".", &f, &err);
	if (r < 0)
		return r == -ENOENT && err.text[0] == '\0' ? no_profile(argv[0]) : cli_fail(&err);
	if (cli->json)
		show_json(f);
	else
		show_text(f);
	return 0;
}

/* ---- check ---- */

/* Checks what only other folders know. */
static int
check_secrets(const char *file, const struct profile *p, struct err *err)
{
	struct secret_short s;

	for (size_t i = 0; i < p->n_secrets; i++)
		for (char **name = p->secrets[i]; *name != NULL; name++)
			if (secret_short_parse(*name, &s, err) < 0)
				return err_wrap(err, "%s: the secret '%s'", file, *name);
	return 0;
}

static int
check_text(const char *file, const char *text, size_t len, struct err *err)
{
	OWN(profile_freep) struct profile *p = NULL;
	int r = profile_read(file, text, len, &p, err);

	return r == 0 ? check_secrets(file, p, err) : r;
}

static int
print_fault(const struct err *err)
{
	text_print_safe(stderr, err->text, strlen(err->text), false);
	fputc('\n', stderr);
	return POLICY_CLI_WRONG;
}

static int
check_file(const char *file)
{
	OWN(freep) char *text = NULL;
	struct err err = {0};
	size_t len;
	int r = read_file_at(AT_FDCWD, file, PROFILE_FILE_MAX, &text, &len, &err);

	if (r < 0)
		return cli_fail(&err);
	r = check_text(file, text, len, &err);
	return r == 0 ? 0 : print_fault(&err);
}

/* A file, or the name of a profile. */
static int
check_word(const char *word)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	struct err err = {0};
	int r;

	if (access(word, F_OK) == 0 || !profile_name_ok(word))
		return check_file(word);
	r = profile_cli_find_text(word, ".", &f, &err);
	if (r == -ENOENT && err.text[0] == '\0')
		return cli_failf("there is no file '%.64s', and no profile of that name: see `cloister profile list`", word);
	if (r < 0)
		return cli_fail(&err);
	r = check_text(f->file, f->text, f->len, &err);
	return r == 0 ? 0 : print_fault(&err);
}

/* ARG is an int: the exit status. */
static int
check_named(void *arg, const char *name)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	struct err err = {0};
	int *status = arg, r = profile_cli_find_text(name, ".", &f, &err);

	r = r == 0 ? check_text(f->file, f->text, f->len, &err) : r;
	if (r < 0)
		*status = print_fault(&err);
	return 0;
}

static int
check_all(const struct profile_cli *cli, int argc, char **argv)
{
	struct err err = {0};
	int status = 0;

	(void)cli;
	for (int i = 0; i < argc; i++)
		status |= check_word(argv[i]);
	if (argc == 0 && profile_cli_each(".", check_named, &status, &err) < 0)
		return cli_fail(&err);
	return status;
}

/* ---- new and edit ---- */

/* Writes TEXT as the operator's own profile; -EEXIST if there is one. */
static int
write_own(const char *name, const char *text, size_t len, char **ret_file, struct err *err)
{
	OWN(freep) char *file = profile_cli_own_file(name, err), *folder = NULL;
	OWN(closep) int dir = -1, fd = -1;

	if (file == NULL)
		return -ENOENT;
	folder = strndup(file, (size_t)(strrchr(file, '/') - file));
	dir = folder == NULL ? -ENOMEM : tree_open_made(folder, true, "set XDG_CONFIG_HOME", err);
	if (dir < 0)
		return dir;
	fd = openat(dir, strrchr(file, '/') + 1, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_errno(err, "cannot write '%s'", file);
	*ret_file = TAKE(file);
	return write_all(fd, text, len, err);
}

/* A profile of one's own, as LIKE is; or the draft. */
static int
make_own(const char *name, const char *like, char **ret_file, struct err *err)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	int r = like == NULL ? 0 : profile_cli_find_text(like, ".", &f, err);

	if (r == -ENOENT && err->text[0] == '\0')
		return err_set(err, ENOENT, "there is no profile '%.64s': see `cloister profile list`", like);
	if (r == 0 && !profile_name_ok(name))
		r = err_set(err, EINVAL, "'%.64s' cannot be the name of a profile: use up to %d lower-case letters, digits, '-' "
		            "and '_'", name, PROFILE_NAME_MAX);
	return r < 0 ? r : write_own(name, f != NULL ? f->text : draft, f != NULL ? f->len : sizeof(draft) - 1, ret_file, err);
}

static int
make_new(const struct profile_cli *cli, int argc, char **argv)
{
	OWN(freep) char *file = NULL;
	struct err err = {0};

	if (argc != 1)
		return cli_failf("`profile new` takes the NAME of a profile");
	if (make_own(argv[0], cli->like, &file, &err) < 0)
		return cli_fail(&err);
	puts(file);
	return 0;
}

static int
edit_one(const struct profile_cli *cli, int argc, char **argv)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	OWN(freep) char *file = NULL;
	struct err err = {0};
	int r;

	(void)cli;
	if (argc != 1)
		return cli_failf("`profile edit` takes the NAME of a profile");
	r = profile_cli_find_text(argv[0], ".", &f, &err);
	if (r < 0)
		return r == -ENOENT && err.text[0] == '\0' ? no_profile(argv[0]) : cli_fail(&err);
	r = f->origin == PROFILE_OWN ? 0 : make_own(argv[0], argv[0], &file, &err);
	r = r == 0 ? cli_run_editor(file != NULL ? file : f->file, &err) : r;
	return r < 0 ? cli_fail(&err) : check_file(file != NULL ? file : f->file);
}

/* ---- trust and forget ---- */

static int
trust_one(const struct profile_cli *cli, int argc, char **argv)
{
	OWN(profile_found_freep) struct profile_found *f = NULL;
	struct err err = {0};
	int r;

	(void)cli;
	if (argc != 1)
		return cli_failf("`profile trust` takes the NAME of a profile");
	r = profile_cli_find(argv[0], ".", &f, &err);
	if (r < 0)
		return r == -ENOENT && err.text[0] == '\0' ? no_profile(argv[0]) : cli_fail(&err);
	if (f->origin != PROFILE_PROJECT)
		return cli_failf("the profile '%s' is %s, and needs no trust", f->name, profile_cli_origin(f->origin));
	show_text(f);
	r = profile_cli_trust(f, &err);
	return r < 0 ? cli_fail(&err) : 0;
}

static int
forget_one(const struct profile_cli *cli, int argc, char **argv)
{
	OWN(freep) char *here = realpath(".", NULL), *project = here == NULL ? NULL : profile_home_project(here);
	struct err err = {0};
	int n;

	if (argc != 1 || !profile_name_ok(argv[0]))
		return cli_failf("`profile forget` takes the NAME of a profile");
	if (project == NULL)
		return cli_failf("cannot find the current folder");
	n = profile_home_forget(argv[0], cli->all ? NULL : project, &err);
	if (n >= 0 && cli->all && profile_answers_forget(argv[0], &err) < 0)
		n = -1;
	if (n < 0)
		return cli_fail(&err);
	if (n == 0)
		printf("%s kept nothing for %s\n", argv[0], cli->all ? "any project" : "this folder");
	else if (isatty(STDOUT_FILENO))
		printf("forgot what %s kept for %s\n", argv[0], cli->all ? "all projects" : "this folder");
	return 0;
}

/* ---- verbs ---- */

static const struct {
	const char *name;
	int (*run)(const struct profile_cli *cli, int argc, char **argv);
} verbs[] = {
	{ "list", list_all }, { "show", show_one }, { "check", check_all }, { "new", make_new },
	{ "edit", edit_one }, { "trust", trust_one }, { "forget", forget_one },
};

int
cmd_profile(int argc, char **argv)
{
	const char *names[ARRAY_LEN(verbs) + 1] = { NULL }, *nearest;
	struct profile_cli cli = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_profile_options, argc, argv, true, NULL, &cli, &rest, &err) < 0)
		return cli_fail(&err);
	argc -= rest;
	argv += rest;
	if (argc < 1)
		return cli_failf("`profile` needs a verb: list, show, check, new, edit, trust or forget");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		names[i] = verbs[i].name;
		if (strcmp(argv[0], verbs[i].name) == 0)
			return verbs[i].run(&cli, argc - 1, argv + 1);
	}
	nearest = text_nearest(argv[0], names);
	if (nearest != NULL)
		return cli_failf("there is no `profile %.16s`: did you mean '%s'?", argv[0], nearest);
	return cli_failf("there is no such verb of `profile`: use list, show, check, new, edit, trust or forget");
}
