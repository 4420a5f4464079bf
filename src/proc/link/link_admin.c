/* link_admin.c - `cloister worker token`, `list` and `remove`: whom the service of this machine lets in. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/args.h"
#include "base/data.h"
#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "link/link_cert.h"
#include "link/link_workers.h"
#include "proc/link/link_proc.h"

#define TTL_MS (3600ull * 1000)
#define TTL_MAX_MS (30ull * 24 * 3600 * 1000)

/* Where workers find the service: as the operator says, or where it listens. */
static int
find_address(int dir, const char *said, char ret_address[LINK_ADDRESS_MAX], struct err *err)
{
	struct link_address where;
	OWN(freep) char *text = NULL;
	int r;

	if (said != NULL) {
		r = link_address_parse(said, false, &where, err);
		if (r == 0)
			snprintf(ret_address, LINK_ADDRESS_MAX, "%s", said);
		return r;
	}
	r = read_file_at(dir, LINK_ADDRESS, LINK_ADDRESS_MAX, &text, NULL, err);
	if (r == -ENOENT)
		return err_set(err, ENOENT, "this machine's service lets no workers in: start `cloister serve --workers ADDRESS:PORT`");
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = '\0';
	r = link_address_parse(text, true, &where, err);
	if (r < 0)
		return r;
	if (link_address_is_any(&where))
		return err_set(err, EINVAL, "the service listens at all addresses of this machine: say which one workers dial, with "
		               "--address HOST:%u", where.port);
	snprintf(ret_address, LINK_ADDRESS_MAX, "%s", text);
	return 0;
}

static int
make_token(int dir, const struct args *args, struct err *err)
{
	const char *pool = args_get(args, "pool"), *ttl = args_get(args, "ttl");
	OWN(link_authority_free) struct link_authority authority = {0};
	uint64_t ms = TTL_MS, now = (uint64_t)time(NULL);
	char text[LINK_TOKEN_MAX];
	struct link_token t = {0};
	int r;

	if (args->n_words > 1)
		return err_set(err, EINVAL, "`worker token` takes no argument: remove '%.64s'", args->words[1]);
	if (pool != NULL && !link_is_name(pool, LINK_POOL_MAX))
		return err_set(err, EINVAL, "'%.64s' is no name of a pool: use 1 to %d of a-z, 0-9 and '-'", pool, LINK_POOL_MAX);
	if (ttl != NULL && num_parse_duration(ttl, &ms, err) < 0)
		return err_wrap(err, "--ttl '%.64s'", ttl);
	if (ms < 1000 || ms > TTL_MAX_MS)
		return err_set(err, ERANGE, "--ttl '%.64s': a token is good for 1s to 30d", ttl);
	r = find_address(dir, args_get(args, "address"), t.address, err);
	r = r == 0 ? link_authority_open(dir, &authority, err) : r;
	if (r < 0)
		return r;
	link_workers_drop_tokens(dir, now);
	r = link_workers_add_token(dir, pool != NULL ? pool : "", now + ms / 1000, false, t.secret, err);
	if (r < 0)
		return r;
	memcpy(t.print, authority.print, sizeof(t.print));
	link_token_format(&t, text);
	puts(text);
	return 0;
}

static void
show_time(uint64_t when, char ret_text[32])
{
	time_t t = (time_t)when;
	struct tm tm;

	if (gmtime_r(&t, &tm) == NULL || strftime(ret_text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		snprintf(ret_text, 32, "%" PRIu64, when);
}

/* The service holds this lock for as long as it lives. */
static bool
service_runs(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	OWN(closep) int folder = data_folder("serve", false, NULL);
	OWN(closep) int fd = folder < 0 ? -1 : openat(folder, "lock", O_RDWR | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static struct link_presence
find_presence(const struct link_presence *all, size_t n, bool runs, const char *id)
{
	struct link_presence found = {0};

	for (size_t i = 0; i < n; i++)
		if (strcmp(all[i].id, id) == 0)
			found = all[i];
	found.since = runs ? found.since : 0;
	return found;
}

static void
print_worker(const struct link_worker *w, const struct link_presence *p)
{
	char joined[32], when[32];

	show_time(w->since, joined);
	show_time(p->since != 0 ? p->since : p->last, when);
	printf("%-16s  %-20s  %-16s  %-20s  %s%s\n", w->id, w->name, *w->pool != '\0' ? w->pool : "any", joined,
	       p->since != 0 ? "since " : p->last != 0 ? "last " : "never", p->since != 0 || p->last != 0 ? when : "");
}

static void
print_worker_json(struct json *out, const struct link_worker *w, const struct link_presence *p)
{
	char joined[32], since[32], last[32];

	show_time(w->since, joined);
	show_time(p->since, since);
	show_time(p->last, last);
	json_open(out, NULL, '{');
	json_str(out, "id", w->id);
	json_str(out, "name", w->name);
	json_str(out, "pool", *w->pool != '\0' ? w->pool : NULL);
	json_str(out, "home", w->home);
	json_str(out, "certificate", w->print);
	json_str(out, "joined", joined);
	json_bool(out, "connected", p->since != 0);
	json_str(out, "connected_since", p->since != 0 ? since : NULL);
	json_str(out, "last_connected", p->last != 0 ? last : NULL);
	json_close(out, '}');
}

static int
list(int dir, const struct args *args, struct err *err)
{
	OWN(freep) struct link_presence *present = NULL;
	OWN(freep) struct link_worker *all = NULL;
	struct json w = { .out = stdout };
	bool json = args_get(args, "json") != NULL;
	size_t n = 0, n_present = 0;
	bool runs = service_runs();
	int r = args->n_words > 1 ? err_set(err, EINVAL, "`worker list` takes no argument: remove '%.64s'", args->words[1]) :
	        link_workers_list(dir, &all, &n, err);

	r = r == 0 ? link_presence_read(dir, &present, &n_present, err) : r;
	if (r < 0)
		return r;
	if (json)
		json_open(&w, NULL, '[');
	else if (n > 0)
		printf("%-16s  %-20s  %-16s  %-20s  %s\n", "ID", "NAME", "POOL", "JOINED", "CONNECTED");
	for (size_t i = 0; i < n; i++) {
		struct link_presence p = find_presence(present, n_present, runs, all[i].id);

		if (json)
			print_worker_json(&w, &all[i], &p);
		else
			print_worker(&all[i], &p);
	}
	if (json) {
		json_close(&w, ']');
		putchar('\n');
	}
	return 0;
}

static int
remove_some(int dir, const struct args *args, struct err *err)
{
	int r = args->n_words > 1 ? 0 : err_set(err, EINVAL, "which worker? `cloister worker remove ID`: see `cloister worker list`");

	for (size_t i = 1; r == 0 && i < args->n_words; i++)
		r = link_workers_remove(dir, args->words[i], err);
	return r;
}

int
link_admin(const struct args *args, struct err *err)
{
	static const struct { const char *name; int (*run)(int dir, const struct args *args, struct err *err); } verbs[] = {
		{ "token", make_token }, { "list", list }, { "remove", remove_some },
	};
	const char *verb = args->n_words > 0 ? args->words[0] : "";
	OWN(closep) int dir = data_folder(LINK_WORKERS, true, err);

	if (dir < 0)
		return dir;
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(verbs[i].name, verb) == 0)
			return verbs[i].run(dir, args, err);
	return err_set(err, EINVAL, "there is no `worker %.64s`: use token, list or remove", verb);
}
