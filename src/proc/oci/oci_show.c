/* oci_show.c - what engines ask about containers: state, list, ps, features. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/version.h"
#include "cell/cell_control.h"
#include "proc/oci/oci.h"

#define CHILDREN_MAX (1u << 20)
#define PROCESSES_MAX 4096

static void
put_annotations(struct json *w, json_t *annotations)
{
	const char *name;
	json_t *value;

	json_open(w, "annotations", '{');
	json_object_foreach(annotations, name, value)
		json_str(w, name, json_string_value(value));
	json_close(w, '}');
}

static void
put_state(struct json *w, const struct oci_state *state)
{
	enum oci_status status = oci_state_status(state);

	json_open(w, NULL, '{');
	json_str(w, "ociVersion", OCI_VERSION);
	json_str(w, "id", state->id);
	json_str(w, "status", oci_status_names[status]);
	json_u64(w, "pid", status == OCI_STOPPED ? 0 : (uint64_t)state->pid);
	json_str(w, "bundle", state->bundle);
	json_str(w, "created", state->created);
	json_str(w, "cell", state->cell);
	put_annotations(w, state->annotations);
	json_close(w, '}');
}

static int
finish(struct err *err)
{
	return fflush(stdout) != 0 ? err_errno(err, "cannot write") : 0;
}

int
oci_show_state(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = oci_state_root(oci, err);
	OWN(oci_state_free) struct oci_state state = {0};
	struct json w = { .out = stdout };
	int r = root < 0 ? root : oci_state_read(root, oci->words[0], &state, err);

	if (r < 0)
		return r;
	put_state(&w, &state);
	putchar('\n');
	return finish(err);
}

static bool
is_json(const struct oci *oci)
{
	return oci->format != NULL && strcmp(oci->format, "json") == 0;
}

static void
list_one(const struct oci *oci, struct json *w, const struct oci_state *state)
{
	if (is_json(oci))
		put_state(w, state);
	else
		printf("%-64s %-9s %7d  %s\n", state->id, oci_status_names[oci_state_status(state)], (int)state->pid,
		       state->bundle);
}

int
oci_list(const struct oci *oci, struct err *err)
{
	OWN(closedirp) DIR *dir = NULL;
	int root = oci_state_root(oci, err);
	struct json w = { .out = stdout };
	struct dirent *d;

	if (root < 0)
		return root;
	dir = fdopendir(root);
	if (is_json(oci))
		json_open(&w, NULL, '[');
	else
		printf("%-64s %-9s %7s  %s\n", "ID", "STATUS", "PID", "BUNDLE");
	while (dir != NULL && (d = readdir(dir)) != NULL) {
		OWN(oci_state_free) struct oci_state state = {0};

		if (oci_state_read(root, d->d_name, &state, NULL) == 0)
			list_one(oci, &w, &state);
	}
	if (is_json(oci)) {
		json_close(&w, ']');
		putchar('\n');
	}
	return finish(err);
}

/* All processes of the cell are children of its first one, or of their children. */
static size_t
add_children(pid_t of, pid_t *pids, size_t n)
{
	OWN(freep) char *text = NULL;
	char path[64], *rest = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)of, (int)of);
	if (read_file_at(AT_FDCWD, path, CHILDREN_MAX, &text, NULL, NULL) < 0)
		return n;
	for (char *word = strtok_r(text, " \n", &rest); word != NULL && n < PROCESSES_MAX;
	     word = strtok_r(NULL, " \n", &rest))
		pids[n++] = (pid_t)strtol(word, NULL, 10);
	return n;
}

int
oci_ps(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = oci_state_root(oci, err), runtime = -1;
	OWN(oci_state_free) struct oci_state state = {0};
	static pid_t pids[PROCESSES_MAX];
	struct cell_info info = {0};
	struct cell_entry entry;
	struct json w = { .out = stdout };
	size_t n = 0;
	int r = root < 0 ? root : oci_state_read(root, oci->words[0], &state, err);

	runtime = r < 0 ? r : oci_find_cell(&state, &entry, err);
	r = runtime < 0 ? runtime : cell_control_info(runtime, &entry, &info, err);
	if (r < 0)
		return r;
	n = info.init > 0 ? add_children((pid_t)info.init, pids, 0) : 0;
	cell_spec_free(&info.spec);
	for (size_t i = 0; i < n; i++)
		n = add_children(pids[i], pids, n);
	if (is_json(oci))
		json_open(&w, NULL, '[');
	for (size_t i = 0; i < n; i++)
		if (is_json(oci))
			json_u64(&w, NULL, (uint64_t)pids[i]);
		else
			printf("%d\n", (int)pids[i]);
	if (is_json(oci)) {
		json_close(&w, ']');
		putchar('\n');
	}
	return finish(err);
}

static void
put_list(struct json *w, const char *name, const char *const *words)
{
	json_open(w, name, '[');
	for (; *words != NULL; words++)
		json_str(w, NULL, *words);
	json_close(w, ']');
}

/* Nothing here: nothing can be asked for. */
static void
put_linux(struct json *w)
{
	static const char *const namespaces[] = { "cgroup", "ipc", "mount", "network", "pid", "user", "uts", NULL };
	static const char *const none[] = { NULL };

	json_open(w, "linux", '{');
	put_list(w, "namespaces", namespaces);
	put_list(w, "capabilities", none);
	json_open(w, "cgroup", '{');
	json_bool(w, "v1", true);
	json_bool(w, "v2", true);
	json_bool(w, "systemd", false);
	json_bool(w, "systemdUser", false);
	json_bool(w, "rdma", false);
	json_close(w, '}');
	json_open(w, "seccomp", '{');
	json_bool(w, "enabled", false);
	json_close(w, '}');
	json_open(w, "apparmor", '{');
	json_bool(w, "enabled", false);
	json_close(w, '}');
	json_open(w, "selinux", '{');
	json_bool(w, "enabled", false);
	json_close(w, '}');
	json_close(w, '}');
}

int
oci_features(const struct oci *oci, struct err *err)
{
	static const char *const options[] = { "bind", "rbind", "ro", "rw", "rro", "private", "rprivate", NULL };
	static const char *const none[] = { NULL };
	struct json w = { .out = stdout };

	(void)oci;
	json_open(&w, NULL, '{');
	json_str(&w, "ociVersionMin", "1.0.0");
	json_str(&w, "ociVersionMax", OCI_VERSION);
	put_list(&w, "hooks", none);
	put_list(&w, "mountOptions", options);
	put_linux(&w);
	json_open(&w, "annotations", '{');
	json_str(&w, "io.cloister.version", CLOISTER_VERSION);
	json_close(&w, '}');
	json_close(&w, '}');
	putchar('\n');
	return finish(err);
}
