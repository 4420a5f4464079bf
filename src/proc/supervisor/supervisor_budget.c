/* supervisor_budget.c - see supervisor_budget.h. */
#include "proc/supervisor/supervisor_budget.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/hash.h"
#include "proc/supervisor/supervisor.h"

#define FOLDER "budgets"                /* in the data folder */
#define TICK_MS 1000
#define LEASE_MS 5000                   /* allowed delay of a busy supervisor */

/* ---- ledgers ---- */

static int
map_ledger(int fd, struct ledger **ret_ledger, struct err *err)
{
	void *at = mmap(NULL, LEDGER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? err_errno(err, "cannot use a ledger") : ledger_open(at, ret_ledger, err);
}

static int
make_cells(struct supervisor_budgets *b, struct err *err)
{
	b->cell_fd = memfd_create("ledger", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* The seals keep anyone from shrinking memory that others have mapped. */
	if (b->cell_fd < 0 || ftruncate(b->cell_fd, LEDGER_SIZE) < 0 ||
	    fcntl(b->cell_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_errno(err, "cannot make a ledger");
	return map_ledger(b->cell_fd, &b->cell, err);
}

/* Every cell that uses the ledger holds a lock on it while one of its processes lives.  If no other
 * cell does, all reservations in it are void. */
static int
share_principals(struct supervisor_budgets *b, struct err *err)
{
	if (flock(b->principal_fd, LOCK_EX | LOCK_NB) == 0)
		ledger_fold(b->principal);
	if (flock(b->principal_fd, LOCK_SH) < 0)
		return err_errno(err, "cannot lock the ledger of the cell's principal");
	return 0;
}

/* A ledger of zeros means that nothing was used, so it does not matter which cell creates it. */
static int
open_principals(struct supervisor_budgets *b, const char *principal, struct err *err)
{
	OWN(closep) int folder = data_folder(FOLDER, true, err);
	unsigned char hash[HASH_LEN];
	char name[HASH_HEX + 1];
	struct stat st;
	int r;

	if (folder < 0)
		return folder;
	hash_of(principal, strlen(principal), hash);
	codec_hex(hash, HASH_LEN, name);
	b->principal_fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (b->principal_fd < 0 || fstat(b->principal_fd, &st) < 0 ||
	    ((uint64_t)st.st_size < LEDGER_SIZE && ftruncate(b->principal_fd, LEDGER_SIZE) < 0))
		return err_errno(err, "cannot open the ledger of the cell's principal");
	r = map_ledger(b->principal_fd, &b->principal, err);
	return r < 0 ? r : share_principals(b, err);
}

int
supervisor_budget_prepare(struct supervisor *sv, struct err *err)
{
	struct supervisor_budgets *b = &sv->budgets;
	struct policy_watch watch = { .times = sv->spec.watch.times };
	int r;

	if (!sv->spec.has_policy)
		return 0;
	b->processors = sysconf(_SC_NPROCESSORS_ONLN);
	r = make_cells(b, err);
	if (r == 0 && !sv->boundary->facts(sv->walls).counts_cpu) {
		atomic_store(&b->cell->uncounted, 1u << POLICY_CPU);
		r = sv->spec.watch.cpu ? err_set(err, ENOTSUP, "of processors' time there is no count without a "
		                                 "cgroup (`cloister doctor` shows why there is none)") : 0;
	}
	if (r == 0 && sv->spec.watch.principal)
		r = open_principals(b, sv->spec.principal != NULL ? sv->spec.principal : "", err);
	if (r < 0)
		return err_wrap(err, "the cell's budgets cannot be counted");
	memcpy(watch.limits, sv->spec.watch.limits, sizeof(watch.limits));
	ledger_watch(b->cell, &watch);
	return 0;
}

int
supervisor_budget_tell(struct supervisor *sv)
{
	const struct supervisor_budgets *b = &sv->budgets;
	struct steer *s = steer_tell(sv, STEER_LEDGER);
	int r = s == NULL ? -ENOMEM : steer_add_fd(s, b->cell_fd);

	return r == 0 && b->principal_fd >= 0 ? steer_add_fd(s, b->principal_fd) : r;
}

/* ---- consequences ---- */

static void
stop_cell(struct supervisor *sv, enum policy_then then, const char *what)
{
	const char *cell = sv->spec.name[0] != '\0' ? sv->spec.name : sv->spec.id;
	struct err err = {0};

	if (!supervisor_is_to_stop(sv, then == POLICY_THEN_FREEZE))
		return;
	if (then == POLICY_THEN_FREEZE && supervisor_freeze(sv, "budget", &err) == 0) {
		supervisor_say(sv, "cell %s: %s, and it is frozen: `cloister budget %s --raise ...` and "
		               "`cloister thaw %s`, or `cloister kill %s`", cell, what, cell, cell, cell);
		return;
	}
	/* If the freeze fails, the cell is killed. */
	snprintf(sv->not_frozen, sizeof(sv->not_frozen), "%.150s", err.text);
	supervisor_record(sv, "killed", "budget", what);
	snprintf(sv->cause, sizeof(sv->cause), "%.200s", what);
	supervisor_kill(sv, KILLED_BY_BUDGET);
}

int
supervisor_reached(struct supervisor *sv, struct ipc_message *message)
{
	const char *what;
	uint32_t then;

	if (buf_get_u32(&message->body, &then) < 0 || then < POLICY_THEN_FREEZE ||
	    then > POLICY_THEN_KILL || buf_get_str(&message->body, &what) < 0 ||
	    buf_left(&message->body) != 0 || strlen(what) > COURIER_REACHED_MAX)
		return -EBADMSG;
	stop_cell(sv, then, what);
	return 0;
}

/* ---- time ---- */

static const enum policy_kind times[] = { POLICY_TIME, POLICY_CPU };
static const enum policy_per pers[] = { POLICY_PER_CELL, POLICY_PER_PRINCIPAL };        /* as in policy_watch */

static void
record_reached(struct supervisor *sv, const char *name, enum policy_kind kind, uint64_t used,
               uint64_t limit, enum policy_then then)
{
	OWN(members_free) struct members m;
	OWN(buf_free) struct buf data;

	buf_init(&data, AUDIT_EVENT_MAX);
	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "budget");
	members_str(&m, "did", "reached");
	members_str(&m, "budget", name);
	members_str(&m, "per", name);
	members_str(&m, "kind", policy_kind_name(kind));
	members_u64(&m, "used", used);
	members_u64(&m, "limit", limit);
	members_u64(&m, "percent", 100);
	members_str(&m, "then", policy_then_name(then));
	members_put_object(&m, &data);
	supervisor_record_members(sv, &m);
	supervisor_notify_own(sv, "budget", &data);
}

/* The strictest budget of L that is used up, if any: its consequence, and a sentence. */
static bool
is_reached(struct supervisor *sv, unsigned per, struct ledger *l, const struct policy_watch *watch,
           enum policy_then *ret_then, char ret_what[COURIER_REACHED_MAX])
{
	const char *name = policy_per_name(pers[per]);
	struct ledger_slot *slot = ledger_slot(l, policy_budget_key(pers[per], ""), true);
	char used_text[POLICY_AMOUNT_TEXT], limit_text[POLICY_AMOUNT_TEXT];

	for (unsigned k = 0; slot != NULL && k < ARRAY_LEN(times); k++)
		for (unsigned kills = 2; kills-- > 0;) {
			uint64_t limit = watch->limits[per][k][kills], used = ledger_used(slot, times[k]);
			enum policy_then then = kills != 0 ? POLICY_THEN_KILL : POLICY_THEN_FREEZE;

			if (limit == 0 || used < (limit = ledger_limit(slot, times[k], limit)))
				continue;
			if (ledger_tell(slot, times[k], limit))
				record_reached(sv, name, times[k], used, limit, then);
			snprintf(ret_what, COURIER_REACHED_MAX, "the budget '%s' is used up: %s of %s%s", name,
			         policy_amount_format(used_text, times[k], used),
			         policy_amount_format(limit_text, times[k], limit),
			         k == 1 ? " of processors" : "");
			*ret_then = then;
			return true;
		}
	return false;
}

/* How soon the first limit of L can be reached. */
static uint64_t
soonest_ms(const struct supervisor_budgets *b, unsigned per, struct ledger *l,
           const struct policy_watch *watch)
{
	struct ledger_slot *slot = ledger_slot(l, policy_budget_key(pers[per], ""), true);
	uint64_t soonest = UINT64_MAX;

	for (unsigned k = 0; slot != NULL && k < ARRAY_LEN(times); k++)
		for (unsigned kills = 0; kills < 2; kills++) {
			uint64_t limit = watch->limits[per][k][kills], used = ledger_used(slot, times[k]), left;

			if (limit == 0)
				continue;
			limit = ledger_limit(slot, times[k], limit);
			left = limit > used ? limit - used : 0;
			/* With all processors busy, CPU time passes faster than the clock. */
			if (times[k] == POLICY_CPU && b->processors > 1)
				left /= (uint64_t)b->processors;
			soonest = left < soonest ? left : soonest;
		}
	return soonest;
}

uint64_t
supervisor_budget_lease_ms(const struct supervisor *sv)
{
	const struct supervisor_budgets *b = &sv->budgets;
	uint64_t soonest, principals = UINT64_MAX;
	struct policy_watch watch;

	if (b->cell == NULL)
		return UINT64_MAX;
	ledger_watched(b->cell, &watch);
	soonest = soonest_ms(b, 0, b->cell, &watch);
	if (b->principal != NULL)
		principals = soonest_ms(b, 1, b->principal, &watch);
	soonest = principals < soonest ? principals : soonest;
	return soonest < UINT64_MAX - LEASE_MS ? soonest + LEASE_MS : UINT64_MAX;
}

static void
add_times(struct ledger *l, enum policy_per per, uint64_t ms, uint64_t cpu_ms)
{
	struct ledger_slot *slot = l == NULL ? NULL : ledger_slot(l, policy_budget_key(per, ""), true);

	if (slot == NULL)
		return;
	ledger_add(slot, POLICY_TIME, ms);
	ledger_add(slot, POLICY_CPU, cpu_ms);
}

/* Add the time since the last count. */
static void
count_times(struct supervisor *sv)
{
	struct supervisor_budgets *b = &sv->budgets;
	uint64_t now = loop_now_ms(), ms = now - b->counted_ms, cpu_ms;
	struct boundary_usage usage;

	supervisor_usage(sv, &usage);
	cpu_ms = usage.cpu_us / 1000;
	/* A frozen cell spends no time. */
	ms = sv->frozen ? 0 : ms;
	add_times(b->cell, POLICY_PER_CELL, ms, cpu_ms - b->cpu_ms);
	add_times(b->principal, POLICY_PER_PRINCIPAL, ms, cpu_ms - b->cpu_ms);
	b->counted_ms = now;
	b->cpu_ms = cpu_ms;
}

static void
tick_due(void *arg)
{
	struct supervisor *sv = arg;
	struct supervisor_budgets *b = &sv->budgets;
	char what[COURIER_REACHED_MAX];
	struct policy_watch watch;
	enum policy_then then;

	if (sv->dead)
		return;
	count_times(sv);
	ledger_watched(b->cell, &watch);
	if (is_reached(sv, 0, b->cell, &watch, &then, what))
		stop_cell(sv, then, what);
	if (b->principal != NULL && is_reached(sv, 1, b->principal, &watch, &then, what))
		stop_cell(sv, then, what);
	supervisor_renew_lease(sv);
	loop_set_timer(sv->loop, &b->tick, TICK_MS);
}

bool
supervisor_budget_ended(struct supervisor *sv, char ret_what[COURIER_REACHED_MAX])
{
	struct supervisor_budgets *b = &sv->budgets;
	struct policy_watch watch;
	enum policy_then then;

	if (b->cell == NULL || b->lease_until_ms == 0 || loop_now_ms() < b->lease_until_ms)
		return false;
	count_times(sv);
	ledger_watched(b->cell, &watch);
	if (!is_reached(sv, 0, b->cell, &watch, &then, ret_what) &&
	    (b->principal == NULL || !is_reached(sv, 1, b->principal, &watch, &then, ret_what)))
		snprintf(ret_what, COURIER_REACHED_MAX, "its supervisor stood still for so long that a budget "
		         "could have been used up");
	return true;
}

/* The supervisor learns the budgets of time only after a courier has read the policy.  So from now
 * on it watches the clock in any case. */
void
supervisor_budget_look(struct supervisor *sv)
{
	struct supervisor_budgets *b = &sv->budgets;

	if (b->cell != NULL && b->tick.at_ms == 0 && !sv->dead)
		loop_set_timer(sv->loop, &b->tick, TICK_MS);
}

void
supervisor_budget_begin(struct supervisor *sv)
{
	struct supervisor_budgets *b = &sv->budgets;

	loop_prepare_timer(&b->tick, tick_due, sv);
	b->counted_ms = loop_now_ms();
	if (sv->spec.watch.times) {
		supervisor_budget_look(sv);
		supervisor_renew_lease(sv);
	}
}

/* ---- what operators ask ---- */

int
supervisor_answer_get_budget(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	const struct supervisor_budgets *b = &sv->budgets;
	OWN(buf_free) struct buf answer = {0};
	struct err err = {0};

	(void)call;
	if (b->cell == NULL) {
		(void)err_set(&err, ENOTSUP, "the cell was started without a policy, so it has no budgets");
		return steer_refuse(client, &err);
	}
	ipc_begin(&answer, CONTROL_DONE);
	buf_put_str(&answer, sv->spec.principal != NULL ? sv->spec.principal : "");
	supervisor_client_send(client, &answer, (int[]){ sv->egress.policy.policy, b->cell_fd,
	                       b->principal_fd }, b->principal_fd >= 0 ? 3 : 2);
	return -EPIPE;
}

static void
record_raise(struct supervisor *sv, const struct steer_who *who, const char *name,
             enum policy_kind kind, uint64_t limit)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	steer_members(&m, steer_rows[VERB_BUDGET].name, who);
	members_str(&m, "budget", name);
	members_str(&m, "kind", policy_kind_name(kind));
	members_u64(&m, "limit", limit);
	steer_record(sv, VERB_BUDGET, who, &m);
}

int
supervisor_answer_raise(struct client *client, struct steer_call *call)
{
	uint64_t per = call->q.n[0], key = call->q.n[1], kind = call->q.n[2], limit = call->q.n[3];
	const char *name = call->q.text[0];
	struct supervisor *sv = client->sv;
	OWN(buf_free) struct buf answer = {0};
	struct ledger_slot *slot;
	struct err err = {0};
	struct ledger *l;

	if (per >= POLICY_PERS || key == 0 || kind >= POLICY_KINDS || strlen(name) > POLICY_BUDGET_NAME_MAX)
		return -EBADMSG;
	l = per == POLICY_PER_PRINCIPAL ? sv->budgets.principal : sv->budgets.cell;
	slot = l == NULL ? NULL : ledger_slot(l, key, true);
	if (slot == NULL) {
		(void)err_set(&err, ENOENT, "the cell has no such budget");
		return steer_refuse(client, &err);
	}
	/* Couriers share the ledger, and see the new limit with their next request. */
	ledger_raise(slot, (enum policy_kind)kind, limit);
	record_raise(sv, &call->who, name, (enum policy_kind)kind, limit);
	ipc_begin(&answer, CONTROL_DONE);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}
