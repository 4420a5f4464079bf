/* serve_options.h - the options of `cloister serve`. */
#ifndef CLOISTER_SERVE_OPTIONS_H
#define CLOISTER_SERVE_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

struct err;

struct serve_options {
	const char *socket, *agents_socket;     /* NULL: in the runtime folder */
	const char *listen;                     /* NULL: no TCP */
	const char *e2b;                        /* where E2B's API is served; NULL: nowhere */
	const char *mcp;                        /* where cells find cloister-mcp; NULL: nowhere */
	const char *token_file, *agent_token_file;
	const char *tls_cert, *tls_key;
	const char *blobs;                      /* a place in S3; NULL: CLOISTER_BLOBS, or the data folder */
	const char *workers;            /* ADDRESS:PORT; NULL: none */
	bool no_tls, routes;
	uint64_t warm;                          /* virtual machines that wait for dispatches */
	const char *warm_memory, *warm_cpus;    /* their size; NULL: the default */
	uint64_t concurrency;                   /* 0: the default of dispatch */
	uint64_t retain_ms;                     /* how long finished dispatches are kept; 0: for good */
	uint64_t idle_exit_ms;                  /* 0: never */
};
/* Also checks combinations of options.  The values are borrowed from argv. */
int serve_options_read(int argc, char **argv, struct serve_options *ret_options, struct err *err);
#endif
