/* run.c - `cloister run`: describes a cell and hands it to a supervisor. */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "base/timing.h"
#include "boundary/boundary.h"
#include "cli/attach.h"
#include "cli/cli.h"
#include "trust/trust.h"

enum { OPT_WORKSPACE, OPT_VOLUME, OPT_VOLUME_NAME, OPT_CACHE, OPT_ENV, OPT_ROOTFS, OPT_ROOT, OPT_NAME, OPT_HOSTNAME,
       OPT_PROFILE, OPT_DETACH, OPT_TTY, OPT_NO_TTY, OPT_CLIPBOARD, OPT_QUIET, OPT_MEMORY, OPT_CPUS, OPT_PIDS,
       OPT_TIME, OPT_DISK, OPT_IO, OPT_TTL, OPT_IDLE_PAUSE, OPT_FORKABLE, OPT_FORK_OF, OPT_POLICY, OPT_ALLOW, OPT_NO_POLICY, OPT_CA, OPT_SECRET,
       OPT_PUBLISH, OPT_ID, OPT_ENV_FILE, OPT_SETUP, OPT_INPUT, OPT_STREAMS, OPT_PRINCIPAL, OPT_CHAIN,
       OPT_KEEP, OPT_WITHIN, OPT_RATE, OPT_BANDWIDTH, OPT_DOC, OPT_PRINT_DOC, OPT_TIMING, OPT_JSON,
       OPT_BOUNDARY, OPT_VM_KERNEL, OPT_VM_ACCEL, OPT_VM_BOOT, OPT_VM_NET, OPT_VM_MONITOR, OPT_WARM, OPT_IMAGE, OPT_ENTRYPOINT,
       OPT_LAYER, OPT_RUNTIME, OPT_HOLD, OPT_STRICT, OPT_DETACH_KEYS, OPT_RECORD, OPT_TOOLS, OPT_RESTART, OPT_ATTEMPT,
       OPT_STATE, OPT_STATE_EVERY };

const struct cli_option cli_run_options[] = {
	{ "workspace", 'w', "DIR[:MODE]", "grant a working folder: overlay (default), rw or ro",
	  OPT_WORKSPACE },
	{ "volume", 'v', "HOST[:CELL][:MODE]", "grant a file or folder: rw (default), ro or overlay",
	  OPT_VOLUME },
	{ "volume-name", 0, "NAME:PATH[:MODE]", "mount a volume, or a snapshot NAME@LABEL, at PATH", OPT_VOLUME_NAME },
	{ "cache", 0, "NAME[@VERSION][:PATH]", "give it a cache of packages, by default at /cache/NAME", OPT_CACHE },
	{ "state", 0, "NAME[:PATH]", "give it a versioned state, and commit its changes (~/NAME)", OPT_STATE },
	{ "state-every", 0, "TIME", "commit its states so often, or at each quiet moment: 10m, quiet", OPT_STATE_EVERY },
	{ "env", 'e', "NAME[=VALUE]", "set a variable, or pass the operator's own", OPT_ENV },
	{ "env-file", 0, "FILE", "set variables: lines NAME=VALUE, or output of `env -0`",
	  OPT_ENV_FILE },
	{ "setup", 0, "PATH", "run this program in the cell before the command", OPT_SETUP },
	{ "input", 0, "FILE", "read standard input from this file, also with -d", OPT_INPUT },
	{ "policy", 'p', "FILE", "the policy of the cell (cloister.yaml if it exists)",
	  OPT_POLICY },
	{ "allow", 0, "RULE", "also allow this: HOST, or \"GET HOST/PATH/**\"",
	  OPT_ALLOW },
	{ "tools", 0, "FILE", "give the cell the MCP servers and rules of this file",
	  OPT_TOOLS },
	{ "within", 0, "FILE", "allow only what this policy allows too (repeat: outermost last)",
	  OPT_WITHIN },
	{ "no-policy", 0, NULL, "ignore any cloister.yaml", OPT_NO_POLICY },
	{ "ca", 0, "FILE", "also trust these certificate authorities", OPT_CA },
	{ "secret", 's', "NAME[=VARIABLE][:FORMAT][@HOST]",
	  "give the cell a placeholder for this secret", OPT_SECRET },
	{ "publish", 0, "[HOSTPORT:]CELLPORT", "forward a port of this machine to a port of the cell",
	  OPT_PUBLISH },
	{ "strict", 0, NULL, "refuse grants that are broader than a project", OPT_STRICT },
	{ "name", 0, "NAME", "name the cell", OPT_NAME },
	{ "detach", 'd', NULL, "run in the background and print the cell's id", OPT_DETACH },
	{ "restart", 0, "[N|always|always:N]", "start a new cell after each that fails, or after each",
	  OPT_RESTART },
	{ "streams", 0, NULL, "with -d: store standard output and error separately",
	  OPT_STREAMS },
	{ "id", 0, "ID", "the cell's id: 8 letters and digits, used once", OPT_ID },
	{ "keep", 0, NULL, "keep the cell's data until it is discarded", OPT_KEEP },
	{ "principal", 0, "TEXT", "record on whose behalf the cell acts", OPT_PRINCIPAL },
	{ "chain", 0, "A/B/C", "record the agents that led to this one, the outermost first", OPT_CHAIN },
	{ "memory", 0, "SIZE", "limit memory (4G)", OPT_MEMORY },
	{ "cpus", 0, "N", "limit processors (all of them, 4 at most)", OPT_CPUS },
	{ "pids", 0, "N", "limit processes and threads (1024)", OPT_PIDS },
	{ "time", 0, "TIME", "kill the cell after this time (24h)", OPT_TIME },
	{ "disk", 0, "SIZE", "limit the data that the cell may write outside rw grants (2G)", OPT_DISK },
	{ "io", 0, "SIZE", "limit bytes per second from, and to, each disk (1G)", OPT_IO },
	{ "rate", 0, "N/s", "limit requests: 10/s, 100/m, 500/h", OPT_RATE },
	{ "bandwidth", 0, "SIZE", "limit bytes per second, both directions together", OPT_BANDWIDTH },
	{ "record", 0, "LEVEL", "record what its processes do: off, acts (default) or full", OPT_RECORD },
	{ "ttl", 0, "TIME", "stop the cell after this time: ask it to end, then kill it", OPT_TTL },
	{ "idle-pause", 0, "TIME", "with -d: pause a virtual machine that did nothing for this time", OPT_IDLE_PAUSE },
	{ "forkable", 0, NULL, "with -d: let `cloister fork` copy the running virtual machine", OPT_FORKABLE },
	{ "image", 0, "REF", "use the files of an image instead of the host's /usr", OPT_IMAGE },
	{ "layer", 0, "FD:TIME", "with --image: write the changes of its files as a layer",
	  OPT_LAYER },
	{ "entrypoint", 0, "PROGRAM", "with --image: run this instead of the image's entry point", OPT_ENTRYPOINT },
	{ "rootfs", 0, "DIR", "use the programs in DIR instead of the host's /usr", OPT_ROOTFS },
	{ "root", 0, "[none|host|minimal]", "run as uid 0; with a word: choose the cell's programs", OPT_ROOT },
	{ "hostname", 0, "NAME", "the host name in the cell (cell)", OPT_HOSTNAME },
	{ "profile", 0, "NAME", "default, or nested: let the command create namespaces", OPT_PROFILE },
	{ "boundary", 0, "NAME", "namespace, oci, gvisor, microvm, docker, process or strongest", OPT_BOUNDARY },
	{ "runtime", 0, "NAME", "with --boundary oci: crun, runc, runsc, kata-runtime or a path", OPT_RUNTIME },
	{ "vm-kernel", 0, "FILE", "with --boundary microvm: the kernel of the virtual machine", OPT_VM_KERNEL },
	{ "vm-boot", 0, NULL, "boot the virtual machine, instead of copying a booted one", OPT_VM_BOOT },
	{ "vm-accel", 0, "NAME", "kvm, or tcg: emulate the virtual machine, for tests", OPT_VM_ACCEL },
	{ "vm-monitor", 0, "NAME", "the program that runs it: qemu, cloud-hypervisor or firecracker", OPT_VM_MONITOR },
	{ "vm-net", 0, "KIND", "the virtual machine's network: user (default), or tap: faster", OPT_VM_NET },
	{ "warm", 0, NULL, "with -d: take a virtual machine that waits for a dispatch", OPT_WARM },
	{ "tty", 't', NULL, "give the command a terminal (default on a terminal)", OPT_TTY },
	{ "no-tty", 'T', NULL, "give the command no terminal", OPT_NO_TTY },
	{ "detach-keys", 0, "KEYS", "leave the terminal with these keys, and let the cell go on",
	  OPT_DETACH_KEYS },
	{ "clipboard", 0, NULL, "let the command set this terminal's clipboard", OPT_CLIPBOARD },
	{ "quiet", 'q', NULL, "print nothing but errors", OPT_QUIET },
	{ "doc", 0, "FILE", "run the cell that this document describes", OPT_DOC },
	{ "print-doc", 0, NULL, "print the cell's document instead of running it", OPT_PRINT_DOC },
	{ "timing", 0, NULL, "print how long each step of start and end took", OPT_TIMING },
	{ "json", 0, NULL, "with --timing: print JSON", OPT_JSON },
	{ "hold", 0, "FD", "make the cell, write its id here, and wait: for cloister-oci", OPT_HOLD },
	{ "fork-of", 0, "POINT", "the cell that is copied: for `cloister fork`", OPT_FORK_OF },
	{ "attempt", 0, "ID[:ID]", "the first cell and the one before: for --restart", OPT_ATTEMPT },
	{0}
};

static int
set_text(char **text, const char *value)
{
	char *copy = strdup(value);

	if (copy == NULL)
		return -ENOMEM;
	free(*text);
	*text = copy;
	return 0;
}

static int
set_name(struct run *run, const char *value, struct err *err)
{
	if (!cell_name_ok(value))
		return err_set(err, EINVAL, "'%s' cannot be a cell's name: use up to %d letters, "
		               "digits, '-' and '_'", value, CELL_NAME_MAX);
	return set_text(&run->spec.name, value);
}

static int
set_profile(struct run *run, const char *value, struct err *err)
{
	run->profile_is_set = true;
	if (strcmp(value, "default") == 0)
		run->spec.profile = CELL_PROFILE_DEFAULT;
	else if (strcmp(value, "nested") == 0)
		run->spec.profile = CELL_PROFILE_NESTED;
	else
		return err_set(err, EINVAL, "there is no profile '%s': use default or nested",
		               value);
	return 0;
}

static int
set_rootfs(struct run *run, const char *value, struct err *err)
{
	char path[PATH_MAX];
	struct stat st;
	int r;

	if (stat(value, &st) < 0)
		return err_errno(err, "cannot use '%s' as the root file system", value);
	r = trust_follow(TRUST_ROOTFS, value, path, err);
	if (r < 0)
		return r;
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "cannot use '%s' as the root file system: it is not a "
		               "folder",
		               value);
	if (strcmp(path, "/") == 0)
		return err_set(err, EINVAL, "'/' cannot be the root file system, because it is the "
		               "host's: name another folder");
	return set_text(&run->spec.rootfs, path);
}

static int
too_little(const char *value, const char *least, struct err *err)
{
	return err_set(err, EINVAL, "'%s' is too small: nothing runs with less than %s", value, least);
}

static int
set_limit(struct cell_limits *l, int id, const char *value, struct err *err)
{
	switch (id) {
	case OPT_MEMORY:
		l->asked |= CELL_LIMIT_MEMORY;
		if (num_parse_size(value, &l->memory, err) < 0)
			return -EINVAL;
		return l->memory >= POLICY_MEMORY_LEAST ? 0 : too_little(value, "4M", err);
	case OPT_CPUS:
		l->asked |= CELL_LIMIT_CPUS;
		if (num_parse_milli(value, &l->cpus_milli, err) < 0)
			return -EINVAL;
		return l->cpus_milli >= POLICY_CPUS_MILLI_LEAST ? 0 : too_little(value, "0.01", err);
	case OPT_PIDS:
		l->asked |= CELL_LIMIT_PIDS;
		return num_parse_count(value, 1, 4194304, &l->pids, err);
	case OPT_TIME:
		l->asked |= CELL_LIMIT_TIME;
		if (num_parse_duration(value, &l->time_ms, err) < 0)
			return -EINVAL;
		return l->time_ms > 0 ? 0 : err_set(err, EINVAL, "'%s' must be greater than 0", value);
	case OPT_TTL:
		if (num_parse_duration(value, &l->ttl_ms, err) < 0)
			return -EINVAL;
		return l->ttl_ms > 0 ? 0 : err_set(err, EINVAL, "'%s' must be greater than 0", value);
	case OPT_IDLE_PAUSE:
		if (num_parse_duration(value, &l->idle_pause_ms, err) < 0)
			return -EINVAL;
		return l->idle_pause_ms > 0 ? 0 : err_set(err, EINVAL, "'%s' must be greater than 0", value);
	case OPT_DISK:
		l->asked |= CELL_LIMIT_DISK;
		if (num_parse_size(value, &l->disk, err) < 0)
			return -EINVAL;
		l->inodes = cell_limits_inodes(l->disk);
		return l->disk >= POLICY_DISK_LEAST ? 0 : too_little(value, "64K", err);
	default:
		l->asked |= CELL_LIMIT_IO;
		if (num_parse_size(value, &l->io, err) < 0)
			return -EINVAL;
		return l->io >= POLICY_IO_LEAST ? 0 : too_little(value, "4K a second", err);
	}
}

static int
take(struct run *run, const struct cli_option *option, const char *value, struct err *err)
{
	int r;

	switch (option->id) {
	case OPT_WORKSPACE: return run_add_workspace(run, value, err);
	case OPT_VOLUME:    return run_add_volume(run, value, err);
	case OPT_VOLUME_NAME: return run_add_volume_name(run, value, err);
	case OPT_CACHE:     return run_add_cache(run, value, err);
	case OPT_STATE:     return run_add_state(run, value, err);
	case OPT_STATE_EVERY: return run_set_state_every(run, value, err);
	case OPT_ENV:
		run_note_env(run, value);
		return run_add_env(run, value, NULL, err);
	case OPT_ENV_FILE:  return run_add_env_file(run, value, err);
	case OPT_ID:        return run_set_id(run, value, err);
	case OPT_SETUP:     return run_add_setup(run, value, err);
	case OPT_PRINCIPAL: return run_set_principal(run, value, err);
	case OPT_CHAIN:     return run_set_chain(run, value, err);
	case OPT_INPUT:     run->input_file = value; return 0;
	case OPT_STREAMS:   run->spec.streams = true; return 0;
	case OPT_KEEP:      run->spec.keep = true; return 0;
	case OPT_ROOTFS:    return set_rootfs(run, value, err);
	case OPT_NAME:      return set_name(run, value, err);
	case OPT_PROFILE:   return set_profile(run, value, err);
	case OPT_RUNTIME:   return run_set_runtime(run, value, "--runtime", err);
	case OPT_RECORD:    return run_set_record(run, value, "--record", err);
	case OPT_BOUNDARY:  return run_set_boundary(run, value, "--boundary", err);
	case OPT_VM_KERNEL: run->vm_kernel = value; return 0;
	case OPT_VM_BOOT:   run->spec.vm_boots = true; return 0;
	case OPT_VM_ACCEL:  return run_set_accel(run, value, err);
	case OPT_VM_MONITOR: return run_set_monitor(run, value, err);
	case OPT_VM_NET:    return run_set_vm_net(run, value, err);
	case OPT_POLICY:
		if (run->policy_file != NULL)
			return err_set(err, EINVAL, "only one policy can be given: '%s' can `include` "
			               "'%s'",
			               run->policy_file, value);
		/* Other tools publish ports this way. */
		if (value[strspn(value, "0123456789:")] == '\0' && access(value, F_OK) < 0)
			return err_set(err, EINVAL, "-p '%s' looks like a port, but -p names a policy: "
			               "use --publish HOSTPORT:CELLPORT to forward a port", value);
		run->policy_file = value;
		return 0;
	case OPT_TOOLS:
		if (run->tools_file != NULL)
			return err_set(err, EINVAL, "only one file of tools can be given: '%s' or '%s'", run->tools_file, value);
		run->tools_file = value;
		return 0;
	case OPT_ALLOW:     return run_add_allow(run, value, err);
	case OPT_WITHIN:    return run_add_within(run, value, err);
	case OPT_NO_POLICY: run->no_policy = true; return 0;
	case OPT_CA:        return run_add_ca(run, value, err);
	case OPT_SECRET:    return run_add_secret(run, value, err);
	case OPT_PUBLISH:   return run_add_port(run, value, err);
	case OPT_RATE:      return run_set_rate(run, value, err);
	case OPT_BANDWIDTH: return run_set_bandwidth(run, value, err);
	case OPT_HOSTNAME:
		if (strlen(value) > 63 || !cell_name_ok(value))
			return err_set(err, EINVAL, "'%s' cannot be a host name", value);
		return set_text(&run->spec.hostname, value);
	case OPT_ROOT:      return run_set_root(run, value, err);
	case OPT_IMAGE:     run->image = value; return 0;
	case OPT_ENTRYPOINT: run->entrypoint = value; return 0;
	case OPT_LAYER:     return run_set_layer(run, value, err);
	case OPT_DETACH:    run->spec.detached = true; return 0;
	case OPT_TTY:       run->tty = RUN_TTY_YES; return 0;
	case OPT_NO_TTY:    run->tty = RUN_TTY_NO; return 0;
	case OPT_CLIPBOARD: run->spec.clipboard = true; return 0;
	case OPT_QUIET:     run->spec.quiet = true; return 0;
	case OPT_DOC:       return run_take_doc(run, value, err);
	case OPT_PRINT_DOC: run->print_doc = true; return 0;
	case OPT_TIMING:    run->timing = true; return 0;
	case OPT_JSON:      run->json = true; return 0;
	case OPT_WARM:      run->warm = true; return 0;
	case OPT_STRICT:    run->strict = true; return 0;
	case OPT_HOLD:      return run_set_hold(run, value, err);
	case OPT_FORKABLE:  run->forkable = true; return 0;
	case OPT_FORK_OF:   return run_set_fork(run, value, err);
	case OPT_RESTART:   return run_set_restart(run, value, err);
	case OPT_ATTEMPT:   return run_set_attempt(run, value, err);
	case OPT_DETACH_KEYS:
		run->leaves = true;
		return detach_parse(value, &run->detach, err);
	default:
		r = set_limit(&run->spec.limits, option->id, value, err);
		return r < 0 ? err_wrap(err, "--%s", option->name) : 0;
	}
}

/* Whether an option is about this start of the cell, and not about the cell.  The values of an
 * --env-file may be too secret for a document. */
static bool
is_of_start(int id)
{
	switch (id) {
	case OPT_DOC: case OPT_PRINT_DOC: case OPT_ENV_FILE: case OPT_NAME: case OPT_ID: case OPT_KEEP:
	case OPT_DETACH: case OPT_STREAMS: case OPT_TTY: case OPT_NO_TTY: case OPT_CLIPBOARD:
	case OPT_QUIET: case OPT_TIMING: case OPT_JSON: case OPT_WARM: case OPT_HOLD: case OPT_STRICT:
	case OPT_DETACH_KEYS: case OPT_RESTART: case OPT_ATTEMPT:
		return true;
	default:
		return false;
	}
}

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct run *run = arg;

	if (!is_of_start(option->id))
		run->described = option->name;
	return take(run, option, value, err);
}

int
run_take_option(struct run *run, const char *name, const char *value, struct err *err)
{
	const struct cli_option *option = cli_run_options;

	while (strcmp(option->name, name) != 0)
		option++;
	return take(run, option, value, err);
}

static bool
is_foreground_terminal(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) &&
	       tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static int
choose_terminal(struct run *run, struct err *err)
{
	const bool is_apart = run->spec.detached;

	if (run->tty == RUN_TTY_YES && is_apart && run->spec.streams)
		return err_set(err, EINVAL, "with --streams there is no terminal, which has one stream: remove -t");
	if (run->tty == RUN_TTY_YES && !is_apart && !is_foreground_terminal())
		return err_set(err, ENOTTY, "-t needs a terminal as standard input and output; with -d it does not, and "
		               "`cloister attach` joins it");
	run->spec.input = run->input_file != NULL;
	if (run->doc_tty && (run->spec.setups != NULL || run->spec.input))
		return err_set(err, EINVAL, "a cell with a terminal has no set-up and no input: register the agent without "
		               "`terminal`, or without a capability that is set up");
	run->spec.tty = is_apart ? run->tty == RUN_TTY_YES || run->doc_tty : run->tty != RUN_TTY_NO && !run->spec.input &&
	                run->spec.setups == NULL && is_foreground_terminal();
	if (run->leaves && !run->spec.tty)
		return err_set(err, EINVAL, "--detach-keys needs a terminal to leave: remove it");
	/* A cell that goes on without this process has its supervisor apart from it. */
	run->attaches = run->leaves && !is_apart;
	run->spec.detached |= run->attaches;
	return 0;
}

static int
take_command(struct run *run, int argc, char **argv, struct err *err)
{
	if (run->doc != NULL && (argc > 0 || run->described != NULL))
		return err_set(err, EINVAL, "--doc describes the cell already: remove %s%s",
		               run->described != NULL ? "--" : "the command ",
		               run->described != NULL ? run->described : argv[0]);
	if (run->doc != NULL)
		return 0;
	if (argc == 0 && run->image != NULL)
		return 0;
	if (argc <= 0)
		return err_set(err, EINVAL, "no command is given: cloister run [OPTION...] NAME, or -- CMD...; after `cloister "
		               "init`, `cloister run` alone starts the project's agent");
	if (argc > CELL_ARGS_MAX)
		return err_set(err, E2BIG, "the command has more than %d words", CELL_ARGS_MAX);
	run->spec.argv = calloc((size_t)argc + 1, sizeof(char *));
	for (int i = 0; i < argc; i++)
		if (run->spec.argv == NULL || set_text(&run->spec.argv[i], argv[i]) < 0)
			return err_set(err, ENOMEM, "out of memory");
	return 0;
}

/* Behind "--" is a command.  Otherwise the first word may be the name of a profile.  Without words, the project's
 * policy may name one. */
static int
take_agent_or_command(struct run *run, int argc, char **argv, struct err *err)
{
	const bool is_command = run->doc != NULL || strcmp(argv[-1], "--") == 0;
	int r = is_command ? 0 : argc > 0 ? run_take_agent(run, argc, argv, err) :
	        run->image == NULL && !run->learn ? run_take_project(run, err) : 0;

	return r > 0 ? 0 : r < 0 ? r : take_command(run, argc, argv, err);
}

int
run_describe(int argc, char **argv, struct run *run, struct err *err)
{
	int rest, r;

	run->begun_ns = timing_now_ns();
	cell_limits_default(&run->spec.limits);
	run->spec.audit_max = CELL_AUDIT_MAX;
	r = cell_make_id(run->spec.id, err);
	if (r == 0 && (set_text(&run->spec.name, "") < 0 || set_text(&run->spec.rootfs, "") < 0 ||
	               set_text(&run->spec.hostname, "cell") < 0 ||
	               set_text(&run->spec.cwd, CELL_HOME) < 0))
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0 && getenv("CLOISTER_BOUNDARY") != NULL)
		r = run_set_boundary(run, getenv("CLOISTER_BOUNDARY"), "CLOISTER_BOUNDARY", err);
	if (r == 0 && getenv("CLOISTER_RUNTIME") != NULL)
		r = run_set_runtime(run, getenv("CLOISTER_RUNTIME"), "CLOISTER_RUNTIME", err);
	if (r == 0 && getenv("CLOISTER_RECORD") != NULL)
		r = run_set_record(run, getenv("CLOISTER_RECORD"), "CLOISTER_RECORD", err);
	if (r == 0 && getenv("CLOISTER_VM_ACCEL") != NULL)
		r = run_set_accel(run, getenv("CLOISTER_VM_ACCEL"), err);
	if (r == 0 && getenv("CLOISTER_VM_MONITOR") != NULL)
		r = run_set_monitor(run, getenv("CLOISTER_VM_MONITOR"), err);
	if (r == 0 && getenv("CLOISTER_VM_NET") != NULL)
		r = run_set_vm_net(run, getenv("CLOISTER_VM_NET"), err);
	if (r == 0)
		r = cli_parse(cli_run_options, argc, argv, false, take_option, run, &rest, err);
	run_settle_fork(run);
	if (r == 0 && run->restarts)
		r = run_check_restart(run, err);
	if (r == 0 && run_is_keeper(run))
		return 0;
	if (r == 0)
		r = take_agent_or_command(run, argc - rest, argv + rest, err);
	if (r == 0)
		r = run_note_broad(run, err);
	if (r == 0)
		r = run_finish_hooks(run, err);
	if (r == 0)
		r = choose_terminal(run, err);
	run->asked = run->spec.limits;
	if (r == 0)
		r = run_finish_policy(run, err);
	if (r == 0)
		r = run_finish_tools(run, err);
	if (r == 0)
		r = run_agent_tell_mcp(run, err);
	if (r == 0)
		r = run_finish_image(run, err);
	if (r == 0 && !run->print_doc)
		r = run_finish_volumes(run, err);
	/* A document has the names of secrets, so the vault need not be open. */
	if (r != 0 || run->print_doc)
		return r;
	if (r == 0)
		r = run_finish_states(run, err);
	if (r == 0)
		r = run_finish_secrets(run, err);
	if (r == 0)
		r = run_agent_place_files(run, err);
	if (r == 0)
		r = run_finish_env(run, err);
	if (r == 0)
		r = run_finish_vm(run, err);
	if (r == 0)
		r = run_finish_fork(run, argv, err);
	if (r == 0)
		run_print_hints(run);
	return r;
}

/* The description in a memory file. */
static int
pack_spec(const struct cell_spec *spec, struct err *err)
{
	OWN(buf_free) struct buf b;
	OWN(closep) int fd = -1;
	int r;

	buf_init(&b, CELL_SPEC_MAX);
	cell_spec_put(&b, spec);
	if (buf_failed(&b))
		return err_set(err, E2BIG, "the command, environment and grants are larger than %d KiB",
		               CELL_SPEC_MAX / 1024);
	fd = memfd_create("cell", MFD_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot describe the cell");
	r = write_all(fd, b.data, b.len, err);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = err_errno(err, "cannot describe the cell");
	return r < 0 ? r : TAKE_FD(fd);
}

static int
run_detached(const struct run *run, struct spawn *supervisor, struct spawn_fd *started, struct err *err)
{
	OWN(closep) int handed = -1;
	int ends[2], status;
	char plus;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot create a pipe");
	started->fd = ends[1];
	supervisor->flags = SPAWN_APART;
	handed = run_hand_over(run, supervisor->fds, supervisor->n_fds);
	pid = handed >= 0 ? 0 : spawn_start(supervisor, NULL, err);
	close(ends[1]);
	if (pid < 0)
		return pid;
	if (read(ends[0], &plus, 1) == 1) {
		if (run->attaches)
			return attach_to(run->spec.id, &run->detach, run->spec.clipboard, true);
		puts(run->spec.id);
		return 0;
	}
	if (handed >= 0)
		return run_handed_status(handed);
	status = spawn_await(pid, err);
	return status > SPAWN_KILLED ? CLI_FAILED : status;
}

static int
become_supervisor(const struct run *run, struct spawn *supervisor, struct err *err)
{
	char *argv[] = { supervisor->argv[0], run->json ? (char[]){ "json" } : (char[]){ "table" }, NULL };

	if (run->timing)
		supervisor->argv = argv;
	timing_mark(TIMING_DESCRIBED);
	return spawn_become(supervisor, err);
}

int
run_start(const struct run *run, struct err *err)
{
	struct spawn_fd fds[] = { { -1, CELL_SPEC_FD }, { run->hold_fd > 0 ? run->hold_fd : -1, CELL_STARTED_FD },
		{ run->policy_fd, CELL_POLICY_FD }, { run->policy_text_fd, CELL_POLICY_TEXT_FD },
		{ run->counts_fd, CELL_COUNTS_FD }, { run->cas_fd, CELL_AUTHORITIES_FD },
		{ run->secrets_fd, CELL_SECRETS_FD }, { run->keeper_fd, CELL_KEEPER_FD },
		{ -1, CELL_TIMING_FD }, { run->image_fd, CELL_IMAGE_FD },
		{ run->layer_fd, CELL_LAYER_FD }, { run->volumes_fd, CELL_VOLUMES_FD },
		{ run->saver_fd, CELL_SAVER_FD }, { run->point_memory > 0 ? run->point_memory : -1, CELL_POINT_MEMORY_FD },
		{ run->point_state > 0 ? run->point_state : -1, CELL_POINT_STATE_FD } };
	struct spawn supervisor = { .argv = (char *[]){ (char[]){ "cloister-supervisor" }, NULL },
		.fds = fds, .n_fds = ARRAY_LEN(fds) };
	int r = run->input_file == NULL ? 0 : run_take_input(run->input_file, err);

	if (r == 0 && run->timing)
		r = timing_make(run->begun_ns, err);
	if (r == 0)
		r = fds[0].fd = pack_spec(&run->spec, err);
	if (r >= 0 && run->timing)
		fds[8].fd = timing_file;
	if (r < 0)
		return r;
	return run->spec.detached ? run_detached(run, &supervisor, &fds[1], err) :
	                            become_supervisor(run, &supervisor, err);
}

int
run_wait(const struct run *run, struct err *err)
{
	struct spawn_fd spec = { pack_spec(&run->spec, err), CELL_SPEC_FD };
	pid_t pid;

	if (spec.fd < 0)
		return spec.fd;
	pid = spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ "cloister-supervisor" }, (char[]){ "wait" }, NULL },
		.fds = &spec, .n_fds = 1, .flags = SPAWN_APART }, NULL, err);
	return pid < 0 ? pid : 0;
}

int
cmd_run(int argc, char **argv)
{
	OWN(run_free) struct run run = {0};
	struct err err = {0};
	int r;

	r = run_describe(argc, argv, &run, &err);
	if (r == 0)
		r = run.print_doc ? run_print_doc(&run, &err) : run_is_keeper(&run) ? run_again(&run, argc, argv, &err) :
		    run_start(&run, &err);
	return r >= 0 ? r : run.hold_fd > 0 ? run_tell_holder(&run, &err) : cli_fail(&err);
}
