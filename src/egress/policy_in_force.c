/* policy_in_force.c - the policies of exchanges: the one in force, and former ones as long as an
 * exchange uses them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/ipc.h"

struct courier_policy *
courier_policy_use(struct courier_policy *p)
{
	p->users++;
	return p;
}

void
courier_policy_release(struct courier_policy *p)
{
	if (p == NULL || --p->users > 0)
		return;
	if (p->before != NULL)
		courier_policy_release(p->before);
	else if (p->counts != NULL)
		munmap(p->counts, p->n_counts * sizeof(*p->counts));
	courier_free_budgets(p);
	policy_free(p->policy);
	free(p);
}

static void
use_from_now_on(struct courier *c, struct courier_policy *p)
{
	p->number = c->policy == NULL ? 1 : c->policy->number + 1;
	courier_policy_release(c->policy);
	c->policy = p;
	courier_rate_changed(c);
	courier_ask_again(c);
}

static void
look_at(struct courier_policy *p)
{
	p->asks = policy_asks(p->policy);
	p->rewrites = policy_rewrites(p->policy) || policy_hooks(p->policy);
	p->fires = policy_leads_on(p->policy);
	p->tripwires = policy_has_tripwires(p->policy);
}

static struct courier_policy *
new_policy(struct policy *policy, struct err *err)
{
	struct courier_policy *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		policy_free(policy);
		(void)err_errno(err, "cannot take the policy");
		return NULL;
	}
	p->policy = policy;
	look_at(p);
	return courier_policy_use(p);
}

int
courier_set_policy(struct courier *c, struct policy *policy, struct err *err)
{
	struct courier_policy *p = new_policy(policy, err);

	if (p == NULL)
		return -ENOMEM;
	(void)courier_bind_budgets(c, p, err);
	use_from_now_on(c, p);
	return 0;
}

/* ---- reading policies ---- */

int
courier_read_whole(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	int r = read_whole(fd, max, ret_text, ret_len, err);

	return r < 0 ? err_wrap(err, "what the supervisor sent") : 0;
}

int
courier_read_policy(int fd, struct policy **ret_policy, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct buf encoded;
	size_t len;
	int r = courier_read_whole(fd, POLICY_ENCODED_MAX, &text, &len, err);

	if (r < 0)
		return r;
	buf_init_borrowed(&encoded, text, len);
	return policy_get(&encoded, ret_policy, err);
}

/* ---- matches per rule ---- */

/* The size of the file is sealed: the sender cannot take the memory away. */
static int
map_counts(struct courier_policy *p, int fd, struct err *err)
{
	size_t n = policy_n_rules(p->policy);
	struct stat st;
	void *at;

	if (n == 0)
		return 0;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < n * sizeof(*p->counts))
		return err_set(err, EINVAL, "there is no room for the counts of all rules");
	at = mmap(NULL, n * sizeof(*p->counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return err_errno(err, "cannot count how often rules decide");
	p->counts = at;
	p->n_counts = n;
	return 0;
}

int
courier_take_counts(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	if (number != 0 || message->n_fds != 1 || buf_left(&message->body) != 0 ||
	    c->policy->counts != NULL)
		return -EBADMSG;
	return map_counts(c->policy, message->fds[0], err);
}

static void
count(struct courier_policy *p, size_t rule)
{
	if (rule < p->n_counts)
		__atomic_add_fetch(&p->counts[rule], 1, __ATOMIC_RELAXED);
}

/* An allowed exchange has one rule per layer; a refused one has a single rule. */
void
exchange_count(const struct exchange *ex)
{
	const struct policy_decision *d = &ex->decision;
	const struct policy *layer = ex->policy->policy;
	size_t base = 0;

	if (ex->policy->counts == NULL || ex->learned)
		return;
	for (size_t i = 0; i < ex->logged.n; i++)
		count(ex->policy, (size_t)ex->logged.rules[i]);
	if (d->verdict != POLICY_ALLOW) {
		if (d->rule >= 0)
			count(ex->policy, (size_t)d->rule);
		return;
	}
	for (size_t i = 0; layer != NULL; i++, layer = policy_outer(layer)) {
		if (d->way.rule[i] >= 0)
			count(ex->policy, base + (size_t)d->way.rule[i]);
		base += policy_n_own(layer);
	}
}

/* ---- replacing the policy ---- */

/* Rules that stay keep their counts: FRONT at the beginning of the first layer, BACK at its end,
 * and all rules of the outer layers. */
static void
carry_counts(const struct courier_policy *from, struct courier_policy *to, size_t front,
             size_t back)
{
	size_t before = policy_n_own(from->policy), after = policy_n_own(to->policy);
	size_t outer = from->n_counts - before;

	if (from->counts == NULL || to->counts == NULL || front + back > before ||
	    front + back > after || to->n_counts - after != outer)
		return;
	memcpy(to->counts, from->counts, front * sizeof(*to->counts));
	memcpy(to->counts + after - back, from->counts + before - back,
	       (back + outer) * sizeof(*to->counts));
}

static int
copy_policy(const struct policy *p, struct policy **ret_copy, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_ENCODED_MAX);

	policy_put(&b, p);
	return buf_failed(&b) ? err_set(err, ENOMEM, "the policy is too large") :
	                        policy_get(&b, ret_copy, err);
}

/* Existing rules keep their numbers, and so their counts. */
int
courier_narrow(struct courier *c, const void *layer, size_t len, struct err *err)
{
	OWN(policy_freep) struct policy *copy = NULL, *outer = NULL;
	struct courier_policy *p;
	struct buf b;
	int r;

	buf_init_borrowed(&b, layer, len);
	r = policy_get(&b, &outer, err);
	r = r == 0 ? copy_policy(c->policy->policy, &copy, err) : r;
	r = r == 0 ? policy_within(copy, &outer, err) : r;
	if (r < 0)
		return r;
	p = new_policy(TAKE(copy), err);
	if (p == NULL)
		return -ENOMEM;
	p->counts = c->policy->counts;
	p->n_counts = c->policy->n_counts;
	p->before = courier_policy_use(c->policy);
	r = courier_bind_budgets(c, p, err);
	if (r < 0)
		courier_policy_release(p);
	else
		use_from_now_on(c, p);
	return r;
}

/* Decide on the first exchange with another policy.  It may take others with it, so the list is
 * searched anew each time. */
static bool
decide_one_again(struct courier *c, const struct exchange *spared, bool sends)
{
	for (struct exchange *ex = c->exchanges; ex != NULL; ex = ex->next) {
		/* An exchange that was answered already sends nothing more. */
		if (ex == spared || ex->policy == c->policy || ex->state == EXCHANGE_DRAINS || ex->outcome.recorded ||
		    (sends && ex->t.came_all))
			continue;
		exchange_decide_again(ex, c->policy);
		return true;
	}
	return false;
}

void
courier_decide_what_sends(struct courier *c, const struct exchange *spared)
{
	while (decide_one_again(c, spared, true))
		;
}

int
courier_take_policy(struct courier *c, uint64_t number, struct ipc_message *message, struct err *err)
{
	struct courier_policy *p;
	struct policy *policy = NULL;
	uint32_t now, front, back;
	int r;

	(void)number;
	if (buf_get_u32(&message->body, &now) < 0 || now > 1 ||
	    buf_get_u32(&message->body, &front) < 0 || front > POLICY_RULES_MAX ||
	    buf_get_u32(&message->body, &back) < 0 || back > POLICY_RULES_MAX ||
	    buf_left(&message->body) != 0 || message->n_fds != 2)
		return -EBADMSG;
	r = courier_read_policy(message->fds[0], &policy, err);
	/* The supervisor does not check the policy's content, so an invalid one does not mean a
	 * broken supervisor. */
	if (r < 0)
		return r == -EBADMSG ? -EINVAL : r;
	p = new_policy(policy, err);
	if (p == NULL)
		return -ENOMEM;
	r = map_counts(p, message->fds[1], err);
	/* Narrowed layers stay in force. */
	r = r == 0 ? courier_narrow_again(c, p->policy, err) : r;
	look_at(p);
	r = r == 0 ? courier_bind_budgets(c, p, err) : r;
	if (r < 0) {
		courier_policy_release(p);
		return r;
	}
	carry_counts(c->policy, p, front, back);
	use_from_now_on(c, p);
	while (now == 1 && decide_one_again(c, NULL, false))
		;
	return 0;
}
