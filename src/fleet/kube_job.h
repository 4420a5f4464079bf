/* kube_job.h - a worker as a Job of Kubernetes, with a Secret for the token by which it joins. */
#ifndef CLOISTER_KUBE_JOB_H
#define CLOISTER_KUBE_JOB_H
#include <jansson.h>

#include "fleet/fleet.h"

#define KUBE_USER 10001                 /* of the workers' image */
#define KUBE_CONTAINER "worker"
#define KUBE_TOKEN "token"              /* of the Secret */
#define KUBE_SECCOMP "cloister/worker.json"     /* the profile's name on nodes, if the target names none */
#define KUBE_GRACE "1h"                 /* that a worker has to finish what it runs, likewise */

/* What FLEET_LABEL has: probes are not counted, so they have another value.  TO holds FLEET_TAG_LEN + 8. */
void kube_job_tag(const struct fleet_plan *plan, bool tries, char *to);
/* -EINVAL if a key of the target has a value that Kubernetes cannot take. */
int kube_job_check(const struct fleet_plan *plan, struct err *err);
/* The caller owns it; NULL when out of memory. */
json_t *kube_job_new(const struct fleet_plan *plan, const struct fleet_job *job);
/* The Secret of a worker, which goes with its JOB. */
json_t *kube_job_secret(const struct fleet_plan *plan, const struct fleet_job *job, const json_t *answer);
#endif
