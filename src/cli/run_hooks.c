/* run_hooks.c - options of `cloister run` for programs that start cells: ids, values and input from
 * files, setups, principals. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "cli/cli.h"
#include "cli/run.h"
#include "trust/trust.h"

int
run_set_id(struct run *run, const char *value, struct err *err)
{
	if (!cell_id_ok(value))
		return err_set(err, EINVAL, "'%s' cannot be a cell's id: use %d letters and digits",
		               value, CELL_ID_LEN);
	memcpy(run->spec.id, value, CELL_ID_LEN + 1);
	run->spec.claim = true;
	return 0;
}

int
run_set_hold(struct run *run, const char *value, struct err *err)
{
	uint64_t fd;

	if (num_parse_count(value, 3, INT_MAX, &fd, NULL) < 0 || fcntl((int)fd, F_GETFD) < 0)
		return err_set(err, EBADF, "--hold '%s' is not an open descriptor above 2", value);
	run->hold_fd = (int)fd;
	run->spec.held = true;
	return 0;
}

int
run_tell_holder(const struct run *run, const struct err *err)
{
	(void)!write(run->hold_fd, err->text, strlen(err->text));
	return CLI_FAILED;
}

/* Adds one entry of LEN bytes, the N-th.  Its value may be secret, so no message contains it. */
static int
add_entry(struct run *run, const char *file, size_t n, const char *text, size_t len,
          struct err *err)
{
	OWN(freep) char *entry = strndup(text, len);
	int r = -EINVAL;

	if (entry == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (strchr(entry, '=') != NULL)
		r = run_add_env(run, entry, file, NULL);
	if (r == -EINVAL)
		return err_set(err, EINVAL, "--env-file '%s': entry %zu is not NAME=VALUE", file, n);
	return r == 0 ? 0 : err_set(err, -r, "--env-file '%s' has too many variables", file);
}

/* If the file contains a NUL, every entry ends with one, as `env -0` writes them, and a newline is
 * part of the value.  Otherwise the entries are lines; blank lines and lines starting with '#' are
 * ignored. */
int
run_add_env_file(struct run *run, const char *file, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len, part, n = 1;
	bool nul;
	int r;

	r = trust_read(TRUST_ENV_FILE, file, CELL_SPEC_MAX, &text, &len, err);
	r = r == 0 ? run_add_source(run, file, err) : r;
	if (r < 0)
		return err_wrap(err, "--env-file '%s'", file);
	nul = memchr(text, '\0', len) != NULL;
	for (const char *at = text; r == 0 && at < text + len; at += part + 1, n++) {
		part = nul ? strlen(at) : strcspn(at, "\n");
		if (nul || (part > 0 && at[0] != '#'))
			r = add_entry(run, file, n, at, part, err);
	}
	return r;
}

int
run_add_setup(struct run *run, const char *path, struct err *err)
{
	struct cell_spec *spec = &run->spec;
	size_t n = spec->setups == NULL ? 0 : strv_len(spec->setups);

	if (path[0] != '/' || strlen(path) >= 4096)
		return err_set(err, EINVAL, "--setup '%s' is not an absolute path in the cell", path);
	if (n == CELL_SETUPS_MAX)
		return err_set(err, E2BIG, "--setup is given more than %d times", CELL_SETUPS_MAX);
	if (spec->setups == NULL)
		spec->setups = calloc(CELL_SETUPS_MAX + 1, sizeof(char *));
	if (spec->setups == NULL || (spec->setups[n] = strdup(path)) == NULL)
		return err_set(err, ENOMEM, "out of memory");
	return 0;
}

int
run_set_principal(struct run *run, const char *text, struct err *err)
{
	if (text[0] == '\0' || !cell_principal_ok(text))
		return err_set(err, EINVAL, "--principal takes up to %d bytes of plain text",
		               CELL_PRINCIPAL_MAX);
	free(run->spec.principal);
	run->spec.principal = strdup(text);
	return run->spec.principal == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
run_set_chain(struct run *run, const char *text, struct err *err)
{
	if (text[0] == '\0' || !cell_chain_ok(text))
		return err_set(err, EINVAL, "--chain '%s' is not A/B/C, with up to %d names of agents",
		               text, CELL_CHAIN_DEPTH_MAX);
	free(run->spec.chain);
	run->spec.chain = strdup(text);
	return run->spec.chain == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
run_finish_hooks(const struct run *run, struct err *err)
{
	const struct cell_spec *spec = &run->spec;

	if (run->print_doc && run->learn)
		return err_set(err, EINVAL, "--print-doc cannot be used with `learn`, which starts a cell");
	if (spec->claim && spec->name[0] != '\0')
		return err_set(err, EINVAL, "--id and --name cannot be combined: remove one");
	if (spec->streams && !spec->detached)
		return err_set(err, EINVAL, "--streams is for detached cells only: add -d, or remove it");
	if (run->tty == RUN_TTY_YES && (spec->setups != NULL || run->input_file != NULL))
		return err_set(err, EINVAL, "with --setup or --input there is no terminal: remove -t");
	if (spec->held && (spec->detached || spec->setups != NULL || run->warm || run->print_doc))
		return err_set(err, EINVAL, "--hold cannot be combined with -d, --setup, --warm or --print-doc: remove "
		               "one");
	if (spec->limits.idle_pause_ms > 0 && !spec->detached && !run->print_doc)
		return err_set(err, EINVAL, "--idle-pause is for detached cells only: input in this terminal could not wake it, so add -d");
	if (run->timing && spec->detached)
		return err_set(err, EINVAL, "--timing prints once the cell has ended, and -d does not wait for "
		               "that: remove one");
	if (run->json && !run->timing)
		return err_set(err, EINVAL, "--json needs --timing: add --timing, or remove --json");
	return 0;
}

int
run_take_input(const char *file, struct err *err)
{
	/* Opening the file must not block, whatever it is. */
	OWN(closep) int fd = trust_open(TRUST_INPUT, file, err);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot read --input '%s'", file);
	if (!S_ISREG(st.st_mode))
		return err_set(err, EINVAL, "--input '%s' is not a regular file", file);
	if (dup2(fd, STDIN_FILENO) < 0)
		return err_errno(err, "cannot read --input '%s'", file);
	return 0;
}
