/* fleet.c - see fleet.h. */
#include "fleet/fleet.h"

#include <string.h>

static const struct fleet *const engines[] = { &fleet_docker, &fleet_swarm, &fleet_kubernetes, &fleet_ecs };

const struct fleet *
fleet_engine(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	return NULL;
}
