/* cell_spec.h - what a cell is given: everything that `run` was asked for.
 *
 * The CLI fills it in and hands it to the supervisor in a memory file; nothing
 * else reaches the supervisor.  Paths are absolute and free of "." and "..". */
#ifndef CLOISTER_CELL_SPEC_H
#define CLOISTER_CELL_SPEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct err;

#define CELL_ID_LEN 8                   /* letters and digits */
#define CELL_NAME_MAX 48
#define CELL_ARGS_MAX 4096              /* words in a command, or variables */
#define CELL_GRANTS_MAX 64
#define CELL_SPEC_MAX (256 * 1024)      /* encoded */
#define CELL_AGENT_ID 1000              /* uid and gid of `agent` inside */
#define CELL_HOME "/home/agent"
#define CELL_PORTS_MAX 32
#define CELL_FILES_MAX 16
#define CELL_KNOWN_HOSTS_MAX (64 * 1024)
#define CELL_AUDIT_MAX (256ULL << 20)   /* of a timeline, unless the policy says otherwise, */
#define CELL_AUDIT_LEAST (1ULL << 20)   /* which is not less than this */
#define CELL_SETUPS_MAX 32
#define CELL_SOURCES_MAX 256
#define CELL_PRINCIPAL_MAX 256          /* bytes */
#define CELL_CHAIN_MAX 1024             /* likewise */
#define CELL_CHAIN_DEPTH_MAX 16

/* Where the supervisor finds the memory files besides the description itself. */
#define CELL_POLICY_FD 5                /* with has_policy; see policy_put() */
#define CELL_POLICY_TEXT_FD 6           /* the same as YAML that includes nothing */
#define CELL_COUNTS_FD 7                /* a u64 for each of its rules, of all layers */
#define CELL_AUTHORITIES_FD 8           /* with has_authorities: certificates, PEM */
#define CELL_SECRETS_MAX 64
#define CELL_SECRETS_FD 9               /* with has_secrets; nobody reads it but the courier */
#define CELL_KEEPER_FD 10               /* with a keeper: the channel to it, which is the courier's */

enum cell_access { CELL_READ, CELL_WRITE, CELL_OVERLAY };

struct cell_grant {
	char *host, *cell;              /* the path outside and inside */
	enum cell_access access;
	bool workspace;                 /* given with -w, or belonging to it */
	bool git_dir;                   /* the common git folder of a linked worktree */
};

enum cell_limit {
	CELL_LIMIT_MEMORY = 1 << 0,
	CELL_LIMIT_CPUS   = 1 << 1,
	CELL_LIMIT_PIDS   = 1 << 2,
	CELL_LIMIT_TIME   = 1 << 3,
	CELL_LIMIT_DISK   = 1 << 4,
	CELL_LIMIT_IO     = 1 << 5,
};

struct cell_limits {
	uint64_t memory, disk, io;      /* bytes, bytes, bytes a second */
	uint64_t cpus_milli, pids, inodes;
	uint64_t time_ms, ttl_ms;       /* ttl 0: none */
	unsigned asked;                 /* the operator's own, as enum cell_limit bits */
};

struct cell_port {
	uint16_t cell, host;            /* host 0: the same, or one that is free */
};

/* A file in the home folder, the agent's own. */
struct cell_file {
	char *path;                     /* from there on: ".aws/credentials" */
	char *text;
};

/* What becomes of a cell that sends a secret where it may not go. */
enum cell_exfiltration { CELL_REFUSE, CELL_FREEZE, CELL_KILL };

enum cell_profile { CELL_PROFILE_DEFAULT, CELL_PROFILE_NESTED };

struct cell_spec {
	char id[CELL_ID_LEN + 1];
	char *name;                     /* "" if none */
	char *hostname, *cwd;
	char *rootfs;                   /* "" for the host's own /usr */
	char **argv, **env;
	struct cell_grant *grants;
	size_t n_grants;
	struct cell_limits limits;
	enum cell_profile profile;
	bool root, detached, tty, quiet;
	bool clipboard;                 /* with tty: may set the operator's */
	bool claim;                     /* the id was chosen: it is ours by its state entry, or refused */
	bool keep;                      /* the state entry stays until it is discarded */
	bool streams;                   /* detached: stdout and stderr are kept apart, not a log */
	bool input;                     /* detached: standard input is carried to the agent */
	char **setups;                  /* programs of the cell's, run before the agent; NULL: none */
	char *principal;                /* on whose behalf; "" or NULL: nobody's in particular */
	char *chain;                    /* who dispatched it, outermost first: "a/b"; "" or NULL */
	/* Egress.  The policy itself and the operator's own certificate authorities are
	 * memory files beside this one. */
	bool has_policy;                /* without one there is no network */
	bool has_authorities;
	bool has_secrets;               /* with a policy only */
	bool learn;                     /* everything is allowed, and recorded */
	char **sources;                 /* the operator's files that what rules came from; NULL: none */
	char **egress_env;              /* the operator's proxies, for the courier */
	struct cell_port ports[CELL_PORTS_MAX]; /* --publish */
	size_t n_ports;
	uint32_t webhook_ports;         /* bit I: to ports[I] come webhooks, which are checked */
	/* With secrets. */
	char **placeholders;            /* the names of variables in ENV that hold them; NULL: none */
	char **secrets;                 /* "NAME SCHEME HOST...", in the courier's order; NULL: none */
	struct cell_file files[CELL_FILES_MAX];
	size_t n_files;
	enum cell_exfiltration exfiltration;
	uint32_t keeper;                /* the process that renews them, as this machine counts its
	                                 * processes; 0: there is none */
	/* The timeline. */
	bool audit_strict;              /* no request leaves before its record is on the disk */
	uint64_t audit_max;             /* bytes; then nothing leaves any more */
	/* Budgets that somebody watches while nothing is asked for: policy_watch(). */
	struct {
		uint64_t limits[2][2][2];
		bool times, principal, cpu;
	} watch;
	char *known_hosts;              /* for ssh, a file's text; "": there is no agent for it */
};

/* Of a cell that has TIME_MS left and may live for TTL_MS (0: it has no ttl): when it is over even if
 * its supervisor does nothing about it.  The supervisor goes first. */
#define CELL_TTL_GRACE_MS 10000         /* a ttl stops gently */
#define CELL_OVER_MS 1000
uint64_t cell_limits_over_ms(uint64_t time_ms, uint64_t ttl_ms);

/* 4 GiB, every CPU up to 4, 1024 processes, 24 h, 2 GiB, 1 GiB/s. */
void cell_limits_default(struct cell_limits *ret_limits);

void cell_spec_put(struct buf *b, const struct cell_spec *spec);
/* On failure *ret_spec is untouched; on success the caller frees it. */
int cell_spec_get(struct buf *b, struct cell_spec *ret_spec, struct err *err);
void cell_spec_free(struct cell_spec *spec);    /* for OWN() too */
/* The files, once they are where they belong. */
void cell_spec_free_files(struct cell_spec *spec);
/* Whether PATH is one that a file of the home folder may have: no "..", no empty part. */
bool cell_file_ok(const char *path);
bool cell_spec_has_overlay(const struct cell_spec *spec);
/* Whether what it leaves has a place of its own from the start. */
bool cell_spec_has_state(const struct cell_spec *spec);
/* One line of UTF-8 that shows as what it is; "" is fine. */
bool cell_principal_ok(const char *text);
/* Names of agents with "/" between them: a-z, 0-9, ".", "_", "-", each beginning with a letter
 * or digit; "" is fine. */
bool cell_chain_ok(const char *text);

/* A fresh random id. */
int cell_make_id(char ret_id[CELL_ID_LEN + 1], struct err *err);
/* An id that somebody chose: CELL_ID_LEN letters and digits. */
bool cell_id_ok(const char *id);
/* Names and ids: letters, digits, "-" and "_", beginning with a letter or digit. */
bool cell_name_ok(const char *name);
#endif
