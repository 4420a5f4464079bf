/* operator_lease.c - see operator.h: the Lease by which one of several operators leads.
 *
 * Another one's Lease is over when it has not changed for its time by this process' own clock: clocks of machines may
 * differ.  Two may lead for a moment if one was held up; a dispatch has a key, so that neither makes a second one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "fleet/fleet.h"
#include "loop/loop.h"
#include "proc/fleet/operator.h"

#define NAME "cloister-operator"
#define LEASE_S 15
#define RENEW_MS 3000
#define LOSE_MS 10000                   /* without an answer: others may take it at LEASE_S */

int
op_lease_begin(struct op *op, struct err *err)
{
	const char *namespace = op->kube.access.namespace != NULL ? op->kube.access.namespace : "default";
	OWN(freep) char *in = fleet_http_escape(namespace);
	unsigned char random[8];
	char hex[2 * sizeof(random) + 1], host[64] = "";

	if (in == NULL || getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_set(err, EIO, "cannot get random bytes");
	(void)gethostname(host, sizeof(host) - 1);
	codec_hex(random, sizeof(random), hex);
	snprintf(op->me, sizeof(op->me), "%s_%s", host, hex);
	snprintf(op->leases, sizeof(op->leases), "/apis/coordination.k8s.io/v1/namespaces/%s/leases", in);
	snprintf(op->lease, sizeof(op->lease), "%s/" NAME, op->leases);
	return 0;
}

/* HAS is the Lease as it is; NULL: there is none. */
static int
hold(struct op *op, const json_t *has, bool holds, struct err *err)
{
	const char *holder = kube_text(has, "spec", "holderIdentity", NULL), *since = kube_text(has, "spec", "acquireTime", NULL);
	bool ours = strcmp(holder, op->me) == 0;
	json_int_t changes = json_integer_value(kube_at(has, "spec", "leaseTransitions", NULL)) + (has != NULL && !ours);
	OWN(json_decrefp) json_t *lease = NULL;
	char now[40];
	struct timespec at;

	clock_gettime(CLOCK_REALTIME, &at);
	op_time_put((uint64_t)at.tv_sec * 1000 + (uint64_t)at.tv_nsec / 1000000, true, now);
	lease = json_pack("{s:s, s:s, s:{s:s}, s:{s:s, s:i, s:s, s:s, s:I}}", "apiVersion", "coordination.k8s.io/v1", "kind", "Lease",
		"metadata", "name", NAME, "spec", "holderIdentity", holds ? op->me : "", "leaseDurationSeconds", holds ? LEASE_S : 1,
		"acquireTime", ours && *since != '\0' ? since : now, "renewTime", now, "leaseTransitions", changes);
	if (lease == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (has == NULL)
		return kube_ask(&op->kube, "POST", op->leases, lease, NULL, err);
	json_object_set_new(json_object_get(lease, "metadata"), "resourceVersion",
	                    json_string(kube_text(has, "metadata", "resourceVersion", NULL)));
	return kube_ask(&op->kube, "PUT", op->lease, lease, NULL, err);
}

/* Whether another one's Lease, which HAS is, is still good. */
static bool
is_others(struct op *op, const json_t *has, uint64_t now_ms)
{
	const char *holder = kube_text(has, "spec", "holderIdentity", NULL);
	const char *version = kube_text(has, "metadata", "resourceVersion", NULL);
	json_int_t seconds = json_integer_value(kube_at(has, "spec", "leaseDurationSeconds", NULL));

	if (*holder == '\0' || strcmp(holder, op->me) == 0)
		return false;
	if (strcmp(op->others, version) != 0) {
		snprintf(op->others, sizeof(op->others), "%s", version);
		op->seen_ms = now_ms;
	}
	return now_ms - op->seen_ms < (uint64_t)(seconds > 0 && seconds < 600 ? seconds : LEASE_S) * 1000;
}

static int
take(struct op *op, uint64_t now_ms, bool *ret_ours, struct err *err)
{
	OWN(json_decrefp) json_t *has = NULL;
	int r = kube_ask(&op->kube, "GET", op->lease, NULL, &has, err);

	*ret_ours = false;
	if (r == -ENOENT)
		r = 0;
	if (r < 0 || is_others(op, has, now_ms))
		return r;
	r = hold(op, has, true, err);
	*ret_ours = r == 0;
	/* Another one was quicker. */
	return r == -EEXIST ? 0 : r;
}

void
op_lease_tend(struct op *op, uint64_t now_ms)
{
	struct err err = {0};
	bool ours = false;
	int r;

	if (now_ms < op->lease_due_ms)
		return;
	r = take(op, now_ms, &ours, &err);
	op->lease_due_ms = now_ms + RENEW_MS;
	if (r < 0)
		fprintf(stderr, "cloister: the Lease " NAME ": %s\n", err.text);
	if (ours)
		op->renewed_ms = now_ms;
	if (ours && !op->leads)
		fputs("cloister: this operator leads\n", stderr);
	if (op->leads && !ours && (r == 0 || now_ms - op->renewed_ms > LOSE_MS)) {
		fputs("cloister: this operator does not lead any more\n", stderr);
		op->leads = false;
	}
	op->leads = op->leads || ours;
}

void
op_lease_release(struct op *op)
{
	OWN(json_decrefp) json_t *has = NULL;

	if (op->leads && kube_ask(&op->kube, "GET", op->lease, NULL, &has, NULL) == 0 &&
	    strcmp(kube_text(has, "spec", "holderIdentity", NULL), op->me) == 0)
		(void)hold(op, has, false, NULL);
	op->leads = false;
}
