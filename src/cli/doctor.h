/* doctor.h - what `cloister doctor` looks at besides walls. */
#ifndef CLOISTER_CLI_DOCTOR_H
#define CLOISTER_CLI_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/firewall.h"

struct findings;

/* How the processes of cells can be seen. */
void doctor_record(struct findings *f);
/* Whether MCP servers can run in cells. */
void doctor_tools(struct findings *f);
/* Finds the OCI runtimes, and tries each. */
void doctor_runtimes(struct findings *f);
/* Whether the Postgres that CLOISTER_STORE names can be used, and by this role. */
void doctor_store(struct findings *f);
/* Whether the place of blobs can be used, if CLOISTER_BLOBS names one. */
void doctor_blobs(struct findings *f);
/* Whether WASI modules can be run as tools. */
void doctor_wasm(struct findings *f);

struct doctor_firewall {
	bool asked, apply, remove;
	const char *network;            /* of workers; NULL: none */
	const char *places[FIREWALL_PLACES_MAX];
	size_t n_places;
	uint16_t service;
};
/* Prints or applies rules, or their inverse; the exit status. */
int doctor_firewall(const struct doctor_firewall *d, bool json);
#endif
