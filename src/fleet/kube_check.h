/* kube_check.h - what is missing on a Kubernetes for workers, in one sentence each. */
#ifndef CLOISTER_KUBE_CHECK_H
#define CLOISTER_KUBE_CHECK_H
#include "fleet/fleet.h"

/* The engine's check(): see fleet.h.  It changes nothing there. */
int kube_check(struct fleet_place *place, struct fleet_findings *findings, struct err *err);
#endif
