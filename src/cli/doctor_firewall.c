/* doctor_firewall.c - `cloister doctor --firewall`: rules for a machine where cells and Docker's containers live side by side.
 *
 * Cells need none, whatever their boundary: their traffic leaves by sockets of this machine.  Workers in containers do. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/docker/engine.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/firewall.h"

#define RESOLVER_MAX 65536
#define TASKS "docker_gwbridge"         /* by which tasks of a swarm reach what is outside of it */

static const char *
text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

/* ---- Docker's networks ---- */

static int
ask_networks(json_t **ret_list, struct err *err)
{
	OWN(engine_answer_free) struct engine_answer answer = {0};
	OWN(freep) char *socket = NULL;
	struct engine_about about;
	int r = engine_find(&socket, err);

	r = r == 0 ? engine_describe(socket, &about, err) : r;
	if (r == 0 && strcmp(about.name, "Docker") != 0)
		return err_set(err, ENOTSUP, "the engine at '%.100s' is %s, which has no chain for rules of others: only Docker has", socket,
		               about.name);
	if (r == 0 && about.rootless)
		return err_set(err, ENOTSUP, "the engine at '%.100s' is rootless: its networks are not among those of this machine", socket);
	r = r == 0 ? engine_ask(socket, &(struct engine_request){ .method = "GET", .path = "/networks" }, &answer, err) : r;
	if (r == 0 && answer.status != 200)
		r = engine_refused("list its networks", &answer, err);
	if (r < 0)
		return r;
	*ret_list = json_loadb(answer.text, answer.len, JSON_REJECT_DUPLICATES, NULL);
	return json_is_array(*ret_list) ? 0 : err_set(err, EBADMSG, "the engine answers with something that is no list of networks");
}

/* The bridge of NETWORK, or "": it has none on this machine. */
static int
name_bridge(const json_t *network, char ret_name[IFNAMSIZ], struct err *err)
{
	const char *own = text_of(json_object_get(network, "Options"), "com.docker.network.bridge.name");
	const char *driver = text_of(network, "Driver");
	char name[64] = "";

	if (strcmp(driver, "overlay") == 0)
		snprintf(name, sizeof(name), TASKS);
	else if (strcmp(driver, "bridge") == 0 && *own != '\0')
		snprintf(name, sizeof(name), "%.60s", own);
	else if (strcmp(driver, "bridge") == 0)
		snprintf(name, sizeof(name), "br-%.12s", text_of(network, "Id"));
	if (*name != '\0' && !firewall_is_interface(name))
		return err_set(err, EBADMSG, "the engine names no interface for its network '%.60s'", text_of(network, "Name"));
	snprintf(ret_name, IFNAMSIZ, "%s", name);
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int
take_workers(struct firewall *f, const char *name, const json_t *network, const char *bridge, struct err *err)
{
	if (*bridge == '\0')
		return err_set(err, EINVAL, "the network '%.100s' has the driver '%.30s', whose traffic does not pass Docker's rules: "
		               "make a bridge for the workers with `docker network create cloister`", name, text_of(network, "Driver"));
	snprintf(f->workers, sizeof(f->workers), "%s", bridge);
	return 0;
}

static void
add_other(struct firewall *f, const char *bridge)
{
	for (unsigned i = 0; i < f->n_others; i++)
		if (strcmp(f->others[i], bridge) == 0)
			return;
	if (*bridge != '\0' && strcmp(bridge, f->workers) != 0)
		snprintf(f->others[f->n_others++], IFNAMSIZ, "%s", bridge);
}

/* WORKERS is the name or the id of a network, or NULL. */
static int
take_networks(struct firewall *f, const json_t *list, const char *workers, struct err *err)
{
	char bridge[IFNAMSIZ];
	const json_t *network;
	size_t i;
	int r = 0;

	if (json_array_size(list) > FIREWALL_BRIDGES_MAX)
		return err_set(err, E2BIG, "the engine has over %d networks", FIREWALL_BRIDGES_MAX);
	json_array_foreach(list, i, network) {
		f->six = f->six || json_is_true(json_object_get(network, "EnableIPv6"));
		if (workers == NULL || (strcmp(text_of(network, "Name"), workers) != 0 && strcmp(text_of(network, "Id"), workers) != 0))
			continue;
		r = name_bridge(network, bridge, err);
		r = r == 0 ? take_workers(f, workers, network, bridge, err) : r;
		if (r < 0)
			return r;
	}
	if (workers != NULL && *f->workers == '\0')
		return err_set(err, ENOENT, "the engine has no network '%.100s': `docker network ls` shows which it has", workers);
	json_array_foreach(list, i, network) {
		r = name_bridge(network, bridge, err);
		if (r < 0)
			return r;
		add_other(f, bridge);
	}
	/* The engine has no order. */
	qsort(f->others, f->n_others, sizeof(f->others[0]), by_name);
	return 0;
}

/* Containers have those of this machine, as Docker takes them. */
static void
take_resolvers(struct firewall *f)
{
	static const char *const files[] = { "/etc/resolv.conf", "/run/systemd/resolve/resolv.conf" };
	bool any = false;

	for (size_t i = 0; i < ARRAY_LEN(files) && !any; i++) {
		OWN(freep) char *text = NULL;

		if (read_file_at(AT_FDCWD, files[i], RESOLVER_MAX, &text, NULL, NULL) == 0)
			any = firewall_add_resolvers(f, text);
	}
}

static int
make_rules(const struct doctor_firewall *d, char **ret_script, struct err *err)
{
	OWN(freep) struct firewall *f = calloc(1, sizeof(*f));
	OWN(json_decrefp) json_t *list = NULL;
	int r = f == NULL ? err_set(err, ENOMEM, "out of memory") : ask_networks(&list, err);

	for (size_t i = 0; r == 0 && i < d->n_places; i++)
		r = firewall_add_place(f, d->places[i], err);
	if (r < 0)
		return r;
	f->service = d->service;
	take_resolvers(f);
	r = take_networks(f, list, d->network, err);
	if (r < 0)
		return r;
	*ret_script = firewall_script(f);
	return *ret_script != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* ---- what becomes of them ---- */

/* What is run is what would be printed. */
static int
apply(const char *script, struct err *err)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)script, NULL };
	int r;

	if (geteuid() != 0)
		return err_set(err, EPERM, "only root may change the machine's rules: leave --apply out, and look at them first");
	r = spawn_run(&(struct spawn){ .argv = argv, .path = "/bin/sh", .flags = SPAWN_DIES, .n_fds = 1,
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO } } }, err);
	return r > 0 ? err_set(err, EIO, "the rules were not put in: what is above says why") : r;
}

static void
print_json(const struct doctor_firewall *d, const char *script)
{
	struct json out = { .out = stdout };

	json_open(&out, NULL, '{');
	json_str(&out, "network", d->network);
	json_bool(&out, "removes", d->remove);
	json_bool(&out, "applied", d->apply);
	json_str(&out, "script", script);
	json_close(&out, '}');
	putchar('\n');
}

int
doctor_firewall(const struct doctor_firewall *d, bool json)
{
	OWN(freep) char *script = NULL;
	struct err err = {0};
	int r = 0;

	if (!d->remove)
		r = make_rules(d, &script, &err);
	else if ((script = firewall_inverse()) == NULL)
		r = err_set(&err, ENOMEM, "out of memory");
	if (r == 0 && d->apply)
		r = apply(script, &err);
	if (r < 0)
		return cli_fail(&err);
	if (json)
		print_json(d, script);
	else if (!d->apply)
		fputs(script, stdout);
	return 0;
}
