/* oci_config.c - makes a cell document of a bundle's config.json.
 *
 * The cell's walls are its own, whatever the file asks for.  So an unknown member is ignored, as the
 * specification demands: it could only ask for more than a cell gives.  But whatever would restrict the
 * container and is not understood is an error. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_doc.h"
#include "policy/policy.h"
#include "proc/oci/oci.h"

#define YEARS_MS (10ULL * 365 * 24 * 3600 * 1000)       /* a container has no limit of time */
#define IDS_SIZE 65536
#define NAMESPACES "io.cloister.namespaces"

void
oci_config_free(struct oci_config *config)
{
	json_decref(config->config);
	json_decref(config->doc);
}

const char *
oci_text(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

/* The specification writes "no limit" as the largest number of 64 bits, which is no number of ours. */
static void
tame_numbers(char *text)
{
	static const char largest[] = "18446744073709551615", ours[] = "9007199254740991    ";
	bool quoted = false;

	_Static_assert(sizeof(largest) == sizeof(ours), "one replaces the other");
	for (char *p = text; *p != '\0'; p++) {
		if (quoted && *p == '\\' && p[1] != '\0')
			p++;
		else if (*p == '"')
			quoted = !quoted;
		else if (!quoted && strncmp(p, largest, sizeof(largest) - 1) == 0)
			memcpy(p, ours, sizeof(ours) - 1);
	}
}

int
oci_read_json(const char *path, json_t **ret_value, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = read_file_at(AT_FDCWD, path, OCI_FILE_MAX, &text, &len, err);

	if (r == 0)
		tame_numbers(text);
	r = r == 0 ? canon_read(text, len, ret_value, err) : r;
	if (r == 0 && !json_is_object(*ret_value))
		r = err_set(err, EINVAL, "it is no object");
	return r < 0 ? err_wrap(err, "'%s'", path) : 0;
}

/* ---- the process ---- */

static int
take_env(const json_t *process, json_t *doc, struct err *err)
{
	const json_t *given = json_object_get(process, "env"), *entry;
	json_t *env = json_array();
	bool has_home = false;
	size_t i;

	if (json_object_set_new(doc, "env", env) < 0)
		return no_memory(err);
	json_array_foreach(given, i, entry) {
		const char *text = json_string_value(entry), *equals = text == NULL ? NULL : strchr(text, '=');

		if (equals == NULL || equals == text)
			return err_set(err, EINVAL, "process.env[%zu] is not NAME=VALUE", i);
		has_home = has_home || strncmp(text, "HOME=", 5) == 0;
		if (json_array_append_new(env, json_pack("{s:s%,s:s}", "name", text, (size_t)(equals - text), "value",
		                                         equals + 1)) < 0)
			return no_memory(err);
	}
	if (!has_home && json_array_append_new(env, json_pack("{s:s,s:s}", "name", "HOME", "value", "/root")) < 0)
		return no_memory(err);
	return 0;
}

static int
take_user(const json_t *process, json_t *bundle, struct err *err)
{
	static const struct { const char *name, *member; } ids[] = { { "uid", "uid" }, { "gid", "gid" },
		{ "additionalGids", "groups" } };
	const json_t *user = json_object_get(process, "user");

	if (oci_text(user, "username") != NULL)
		return err_set(err, EINVAL, "process.user.username is not for Linux");
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		json_t *value = json_object_get(user, ids[i].name);

		if (value != NULL && json_object_set(bundle, ids[i].member, value) < 0)
			return no_memory(err);
	}
	return 0;
}

/* Without a value there is no limit. */
static int
put_rlimit(json_t *limit, const char *name, json_t *value)
{
	return json_is_integer(value) && json_integer_value(value) < CANON_INTEGER_MAX ?
	       json_object_set(limit, name, value) : 0;
}

static int
take_rlimits(const json_t *process, json_t *bundle, struct err *err)
{
	json_t *given = json_object_get(process, "rlimits"), *one, *limits = json_array();
	size_t i;

	if (limits == NULL || json_object_set_new(bundle, "rlimits", limits) < 0)
		return no_memory(err);
	json_array_foreach(given, i, one) {
		const char *type = oci_text(one, "type");
		json_t *limit = json_object();

		if (type == NULL || limit == NULL || json_object_set_new(limit, "type", json_string(type)) < 0 ||
		    put_rlimit(limit, "soft", json_object_get(one, "soft")) < 0 ||
		    put_rlimit(limit, "hard", json_object_get(one, "hard")) < 0) {
			json_decref(limit);
			return err_set(err, EINVAL, "process.rlimits[%zu] has no type", i);
		}
		if (json_array_append_new(limits, limit) < 0)
			return no_memory(err);
	}
	return 0;
}

static int
take_process(const json_t *process, struct oci_config *config, json_t *bundle, struct err *err)
{
	const char *cwd = oci_text(process, "cwd");
	const json_t *size = json_object_get(process, "consoleSize");
	int r;

	if (!json_is_object(process) || json_array_size(json_object_get(process, "args")) == 0)
		return err_set(err, EINVAL, "the configuration has no process.args, so there is nothing to run");
	if (cwd == NULL || cwd[0] != '/')
		return err_set(err, EINVAL, "process.cwd is not an absolute path");
	config->terminal = json_is_true(json_object_get(process, "terminal"));
	config->rows = (unsigned)json_integer_value(json_object_get(size, "height"));
	config->columns = (unsigned)json_integer_value(json_object_get(size, "width"));
	if (json_object_set(config->doc, "command", json_object_get(process, "args")) < 0 ||
	    json_object_set_new(bundle, "cwd", json_string(cwd)) < 0)
		return no_memory(err);
	r = take_user(process, bundle, err);
	r = r == 0 ? take_rlimits(process, bundle, err) : r;
	return r < 0 ? r : take_env(process, config->doc, err);
}

/* ---- root, host name, limits ---- */

static int
take_root(const struct oci_config *config, const char *folder, json_t *bundle, struct err *err)
{
	const json_t *root = json_object_get(config->config, "root");
	const char *given = oci_text(root, "path");
	OWN(freep) char *path = given == NULL ? NULL : given[0] == '/' ? strdup(given) : str_format("%s/%s", folder, given);
	OWN(freep) char *real = path == NULL ? NULL : realpath(path, NULL);
	json_t *layers = json_array();
	bool metacopy = false;
	int r;

	if (json_object_set_new(bundle, "layers", layers) < 0)
		return no_memory(err);
	if (given == NULL)
		return err_set(err, EINVAL, "the configuration has no root.path");
	if (real == NULL)
		return err_errno(err, "cannot use '%s' as the root file system", path);
	r = oci_find_layers(real, layers, &metacopy, err);
	if (r < 0)
		return r;
	if (json_object_set_new(config->doc, "rootfs", json_string(real)) < 0 ||
	    json_object_set_new(bundle, "metacopy", json_boolean(metacopy)) < 0 ||
	    json_object_set_new(bundle, "readonly", json_boolean(json_is_true(json_object_get(root, "readonly")))) < 0)
		return no_memory(err);
	return 0;
}

/* A cell's host name is one label. */
static int
take_hostname(const struct oci_config *config, struct err *err)
{
	const char *name = oci_text(config->config, "hostname");
	size_t len = name == NULL ? 0 : strcspn(name, ".");

	return len > 0 && json_object_set_new(config->doc, "hostname", json_stringn(name, len)) < 0 ? no_memory(err) : 0;
}

static int
set_limit(json_t *limits, const char *name, json_int_t value, struct err *err)
{
	return value > 0 && json_object_set_new(limits, name, json_integer(value)) < 0 ? no_memory(err) : 0;
}

static int
take_limits(const json_t *resources, json_t *doc, struct err *err)
{
	const json_t *cpu = json_object_get(resources, "cpu");
	json_int_t quota = json_integer_value(json_object_get(cpu, "quota"));
	json_int_t period = json_integer_value(json_object_get(cpu, "period"));
	json_int_t memory = json_integer_value(json_object_get(json_object_get(resources, "memory"), "limit"));
	json_int_t pids = json_integer_value(json_object_get(json_object_get(resources, "pids"), "limit"));
	json_t *limits = json_object();
	int r = json_object_set_new(doc, "limits", limits) < 0 ? no_memory(err) : 0;

	period = period > 0 ? period : 100000;
	r = r == 0 ? set_limit(limits, "time_ms", (json_int_t)YEARS_MS, err) : r;
	/* "No limit" is written as -1, and as a number beyond every machine's memory. */
	r = r == 0 && memory < CANON_INTEGER_MAX ? set_limit(limits, "memory", memory, err) : r;
	r = r == 0 ? set_limit(limits, "pids", pids, err) : r;
	return r == 0 && quota > 0 && quota < CANON_INTEGER_MAX / 1000 ?
	       set_limit(limits, "cpus_milli", quota * 1000 / period > 10 ? quota * 1000 / period : 10, err) : r;
}

/* ---- what a container cannot have ---- */

/* A namespace of the engine's would be another network, or other processes.  With the annotation, the
 * container has the cell's own instead. */
static int
check_namespaces(const json_t *linux_part, const json_t *annotations, struct err *err)
{
	const char *word = oci_text(annotations, NAMESPACES);
	const json_t *ns;
	size_t i;

	if (word != NULL && strcmp(word, "own") != 0)
		return err_set(err, EINVAL, "the annotation " NAMESPACES " is '%.40s': use own, or leave it out", word);
	json_array_foreach(json_object_get(linux_part, "namespaces"), i, ns) {
		const char *path = oci_text(ns, "path"), *type = oci_text(ns, "type");

		if (path != NULL && path[0] != '\0' && word == NULL)
			return err_set(err, ENOTSUP, "the container would join the %s namespace '%s', which a cell cannot: use "
			               "--network none, or the annotation " NAMESPACES "=own", type != NULL ? type : "?", path);
	}
	return 0;
}

/* dockerd has this one for each container, also for one without a network. */
static bool
is_dockers_network(const json_t *hook)
{
	const char *first = json_string_value(json_array_get(json_object_get(hook, "args"), 0));

	return first != NULL && strcmp(first, "libnetwork-setkey") == 0;
}

static int
check_hooks(json_t *hooks, struct err *err)
{
	const char *kind;
	json_t *list;
	const json_t *hook;
	size_t i;

	json_object_foreach(hooks, kind, list)
		json_array_foreach(list, i, hook)
			if (!is_dockers_network(hook))
				return err_set(err, ENOTSUP, "the container has a %s hook, '%s', and cloister-oci runs none", kind,
				               oci_text(hook, "path") != NULL ? oci_text(hook, "path") : "?");
	return 0;
}

/* Everything in /proc and /sys that describes the host is masked, or not there. */
static int
check_masks(const json_t *paths, const char *name, struct err *err)
{
	const json_t *path;
	size_t i;

	json_array_foreach(paths, i, path) {
		const char *text = json_string_value(path);

		if (text == NULL || (strncmp(text, "/proc/", 6) != 0 && strncmp(text, "/sys/", 5) != 0))
			return err_set(err, ENOTSUP, "linux.%s has '%s', and a cell masks only its own /proc and /sys", name,
			               text != NULL ? text : "?");
	}
	return 0;
}

/* OWNER: of the root file system.  An engine that gives it to the range has made it for that range. */
static int
take_first(const json_t *mappings, json_int_t owner, json_t *bundle, const char *name, const char *member,
           struct err *err)
{
	const json_t *map = json_array_get(mappings, 0);
	json_int_t first = json_integer_value(json_object_get(map, "hostID"));

	if (json_array_size(mappings) == 0)
		return 0;
	if (json_array_size(mappings) > 1 || json_integer_value(json_object_get(map, "containerID")) != 0 ||
	    json_integer_value(json_object_get(map, "size")) > IDS_SIZE)
		return err_set(err, ENOTSUP, "linux.%s is more than one range of up to %d ids that begins at 0 in the "
		               "container", name, IDS_SIZE);
	return owner == first && json_object_set_new(bundle, member, json_integer(first)) < 0 ? no_memory(err) : 0;
}

static int
take_mappings(const struct oci_config *config, json_t *bundle, struct err *err)
{
	const json_t *part = json_object_get(config->config, "linux");
	struct stat st;
	int r;

	if (stat(oci_text(config->doc, "rootfs"), &st) < 0)
		return err_errno(err, "cannot look at the root file system");
	r = take_first(json_object_get(part, "uidMappings"), st.st_uid, bundle, "uidMappings", "first_uid", err);
	return r < 0 ? r : take_first(json_object_get(part, "gidMappings"), st.st_gid, bundle, "gidMappings", "first_gid", err);
}

static int
take_linux(const struct oci_config *config, const json_t *annotations, struct err *err)
{
	const json_t *part = json_object_get(config->config, "linux");
	int r = check_namespaces(part, annotations, err);

	if (r == 0 && json_array_size(json_object_get(part, "devices")) > 0)
		r = err_set(err, ENOTSUP, "the container asks for devices (linux.devices), and a cell has none of the host's");
	r = r == 0 ? check_masks(json_object_get(part, "maskedPaths"), "maskedPaths", err) : r;
	r = r == 0 ? check_masks(json_object_get(part, "readonlyPaths"), "readonlyPaths", err) : r;
	return r == 0 ? take_limits(json_object_get(part, "resources"), config->doc, err) : r;
}

/* ---- all of it ---- */

static int
check_version(const json_t *config, struct err *err)
{
	const char *version = oci_text(config, "ociVersion");

	if (version == NULL || strncmp(version, "1.", 2) != 0)
		return err_set(err, ENOTSUP, "its ociVersion is '%.40s', and this runtime knows 1.x",
		               version != NULL ? version : "");
	return 0;
}

static int
convert(const struct oci *oci, struct oci_config *config, const char *folder, struct err *err)
{
	const json_t *annotations = json_object_get(config->config, "annotations");
	json_t *bundle = json_object(), *scratches = json_array();
	int r = check_version(config->config, err);

	config->doc = json_pack("{s:i}", "version", CELL_DOC_VERSION);
	if (json_object_set_new(config->doc, "bundle", bundle) < 0 ||
	    json_object_set_new(bundle, "scratches", scratches) < 0)
		return no_memory(err);
	r = r == 0 ? check_hooks(json_object_get(config->config, "hooks"), err) : r;
	r = r == 0 ? take_linux(config, annotations, err) : r;
	r = r == 0 ? take_process(json_object_get(config->config, "process"), config, bundle, err) : r;
	r = r == 0 ? take_hostname(config, err) : r;
	r = r == 0 ? take_root(config, folder, bundle, err) : r;
	r = r == 0 ? take_mappings(config, bundle, err) : r;
	r = r == 0 ? oci_take_mounts(config->config, folder, config->doc, scratches, err) : r;
	return r == 0 ? oci_take_policy(oci, annotations, config->doc, err) : r;
}

int
oci_config_read(const struct oci *oci, const char *bundle, struct oci_config *ret_config, struct err *err)
{
	OWN(freep) char *folder = realpath(bundle, NULL);
	OWN(freep) char *path = folder == NULL ? NULL : str_format("%s/config.json", folder);
	int r;

	*ret_config = (struct oci_config){0};
	if (path == NULL)
		return err_errno(err, "cannot open the bundle '%s'", bundle);
	r = oci_read_json(path, &ret_config->config, err);
	if (r < 0)
		return r;
	r = convert(oci, ret_config, folder, err);
	return r < 0 ? err_wrap(err, "'%s'", path) : 0;
}
