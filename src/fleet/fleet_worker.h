/* fleet_worker.h - between an engine and the worker that it starts: variables, and what exit statuses mean.
 *
 * Where an engine's secrets are files, NAME_FILE names that of the variable NAME. */
#ifndef CLOISTER_FLEET_WORKER_H
#define CLOISTER_FLEET_WORKER_H

#define FLEET_JOIN "CLOISTER_JOIN"      /* the token of one worker, instead of --join */
#define FLEET_FILE_SUFFIX "_FILE"

/* Of `cloister worker --try`; anything else is another failure. */
enum fleet_worker_status {
	FLEET_WORKER_NO_CELLS = 120,    /* the container forbids what the walls of cells are made of */
	FLEET_WORKER_NO_STORE = 121,
	FLEET_WORKER_NO_SERVICE = 122,
};
#endif
