/* kube_place.h - what the engine `kubernetes` keeps in `own` of its place. */
#ifndef CLOISTER_KUBE_PLACE_H
#define CLOISTER_KUBE_PLACE_H
#include "fleet/kube.h"

struct kube_place {
	struct kube kube;
	char namespace[KUBE_NAME_MAX + 1];
	char jobs[128], pods[128];      /* paths of these lists */
};
#endif
