/* cell_spec.h - the full description of a cell: everything that `run` was asked for.
 *
 * The CLI fills it in and passes it to the supervisor in a memory file; the supervisor gets nothing
 * else.  Paths are absolute and free of "." and "..". */
#ifndef CLOISTER_CELL_SPEC_H
#define CLOISTER_CELL_SPEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "canon/hash.h"

struct err;

#define CELL_ID_LEN 8                   /* letters and digits */
#define CELL_NAME_MAX 48
#define CELL_ARGS_MAX 4096              /* words in a command, or variables */
#define CELL_GRANTS_MAX 64
#define CELL_VOLUMES_MAX 16
#define CELL_CACHES_MAX 8
#define CELL_SPEC_MAX (256 * 1024)      /* bytes, encoded */
#define CELL_AGENT_ID 1000              /* uid and gid of `agent` inside */
#define CELL_HOME "/home/agent"
#define CELL_OUT "/out"                 /* of a dispatch: its result */
#define CELL_CAPABILITIES "/capabilities"       /* of a dispatch: read-only folders */
#define CELL_PORTS_MAX 32
#define CELL_FILES_MAX 16
#define CELL_KNOWN_HOSTS_MAX (64 * 1024)
#define CELL_AUDIT_MAX (256ULL << 20)   /* bytes of a timeline, unless the policy sets another limit */
#define CELL_AUDIT_LEAST (1ULL << 20)   /* the lowest limit */
#define CELL_SETUPS_MAX 64
#define CELL_STARTS_MAX (CELL_SETUPS_MAX + 1)
#define CELL_SOURCES_MAX 256
#define CELL_PRINCIPAL_MAX 256          /* bytes */
#define CELL_CHAIN_MAX 1024             /* bytes */
#define CELL_CHAIN_DEPTH_MAX 16
#define CELL_BOUNDARY_MAX 32            /* bytes of its name */
#define CELL_MONITOR_MAX 31
#define CELL_LAYERS_MAX 128             /* of an image */
#define CELL_IMAGE_NAME_MAX 512         /* bytes */
#define CELL_RUNTIME_MAX 31             /* bytes of the name of an OCI runtime */
#define CELL_BUNDLE_LAYERS_MAX 256
#define CELL_SCRATCHES_MAX 32
#define CELL_GROUPS_MAX 32
#define CELL_RLIMITS_MAX 16             /* as many kinds as Linux has */
#define CELL_RLIMIT_NONE ((uint64_t)-1) /* in place of a value: no limit */

/* The descriptors that the supervisor is started with; see cell_spec_has_fd(). */
#define CELL_SPEC_FD 3                  /* a memory file: the description, see cell_spec_put() */
#define CELL_STARTED_FD 4               /* if detached: it writes "+" here once the cell runs; if held:
                                         * the cell's id once it is made */
#define CELL_POLICY_FD 5                /* with has_policy; see policy_put() */
#define CELL_POLICY_TEXT_FD 6           /* the policy as YAML that includes nothing */
#define CELL_COUNTS_FD 7                /* a u64 for each of its rules, of all layers */
#define CELL_AUTHORITIES_FD 8           /* with has_authorities: certificates, PEM */
#define CELL_SECRETS_MAX 64
#define CELL_STATES_MAX 4
#define CELL_COMMIT_MAX 64                /* digits of a commit */
#define CELL_GUARDS_MAX 2047              /* bytes of the guards of a state: POLICY_STATE_GUARDS_MAX */
#define CELL_SECRETS_FD 9               /* with has_secrets; only the courier reads it */
#define CELL_KEEPER_FD 10               /* with a keeper: the courier's channel to it */
#define CELL_TIMING_FD 11               /* with `run --timing`: base/timing.h */
#define CELL_IMAGE_FD 12                /* with an image: holds the lock that keeps it in the store */
#define CELL_LAYER_FD 13                /* in a build: gets the changes of the image's files as a layer */
#define CELL_VOLUMES_FD 14              /* with volumes: holds their locks */
#define CELL_SAVER_FD 15                /* with a state: the channel to cloister-saver, which holds its files */
#define CELL_POINT_MEMORY_FD 16         /* in a fork: the memory of the machine that it is a copy of, */
#define CELL_POINT_STATE_FD 17          /* and the state of that machine's devices */
#define CELL_FDS_END 18

/* CELL_VOLUME: an overlay with a limit of its own, whose changes become part of the volume, or are thrown away. */
enum cell_access { CELL_READ, CELL_WRITE, CELL_OVERLAY, CELL_VOLUME };

struct cell_grant {
	char *host, *cell;              /* the path outside and inside */
	enum cell_access access;
	bool workspace;                 /* given with -w, or part of it */
	bool git_dir;                   /* the common git folder of a linked worktree */
	bool volume;                    /* HOST is a tree of volume/volume.h: CELL_VOLUME or CELL_READ */
	char *out;                      /* CELL_VOLUME: the folder that gets the changes; NULL: they are thrown away */
	char *cache;                    /* of a volume that is a cache's: "NAME@HASH"; or NULL */
	uint64_t size, entries;         /* CELL_VOLUME: the most bytes and files of these */
	bool state;                     /* the files of a state: an overlay of it is committed, and never applied */
};

/* A versioned state (src/state). */
struct cell_state {
	char *name, *branch;            /* BRANCH "": none, because it is read-only */
	char *commit;                   /* what the cell began with */
	uint32_t grant;                 /* number of its grant: an overlay, or read-only */
	uint32_t number;                /* among the saver's */
	bool quiet;                     /* it is committed at each quiet moment, */
	uint64_t every_ms;              /* and every so often; 0: not */
	char *guards;                   /* policy/policy_guards.h */
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
	uint64_t idle_pause_ms;         /* after so long without activity it is paused; 0: never */
	unsigned asked;                 /* enum cell_limit bits: set by the operator */
};

struct cell_port {
	uint16_t cell, host;            /* host 0: the same port, or any free one */
};

/* A file in the agent's home folder, owned by the agent. */
struct cell_file {
	char *path;                     /* relative to the home folder: ".aws/credentials" */
	char *text;
};

/* The effect on a cell that sends a secret to a forbidden place. */
enum cell_exfiltration { CELL_REFUSE, CELL_FREEZE, CELL_KILL, CELL_ROLLBACK };      /* ROLLBACK: kill, and its states go back */

/* Where a cell's programs come from. */
enum cell_programs { CELL_PROGRAMS_HOST, CELL_PROGRAMS_FOLDER, CELL_PROGRAMS_IMAGE, CELL_PROGRAMS_NONE };

struct cell_image {
	char **layers;                  /* folders, the lowest first, at most CELL_LAYERS_MAX; NULL: no image, or an engine's */
	char *name;                     /* for people and records; "" if it has none; NULL: no image */
	unsigned char digest[HASH_LEN]; /* of its manifest; of an engine's image, of its configuration */
	/* Of its user: the files of these ids belong to the agent.  In a container of an engine, the agent has them, unless
	 * they are root's. */
	uint32_t uid, gid;
	/* A step of a build: the agent is that user, and may change the image's files.  The changes become a layer, in
	 * which no file is newer than EPOCH (seconds since 1970). */
	bool build;
	uint64_t epoch;
};

/* What of its processes is recorded, and what becomes of the cell if that fails while it runs. */
enum cell_witness { CELL_RECORD_OFF, CELL_RECORD_ACTS, CELL_RECORD_FULL };
enum cell_witness_lost { CELL_LOST_GO_ON, CELL_LOST_FREEZE, CELL_LOST_KILL };
#define CELL_RECORD_DEFAULT CELL_RECORD_ACTS

enum cell_profile { CELL_PROFILE_DEFAULT, CELL_PROFILE_NESTED };

/* A container of an engine: its own root file system, and the ids of its process.  Its changes stay
 * in the cell's scratch space. */
struct cell_bundle {
	char **layers;                  /* folders, the lowest first; NULL: the cell is no container */
	char **scratches;               /* paths in the cell that are empty folders at first; NULL: none */
	uint32_t uid, gid;              /* below 65536 */
	uint32_t groups[CELL_GROUPS_MAX];
	uint32_t n_groups;
	struct cell_rlimit {
		uint32_t what;          /* RLIMIT_*; cell_rlimits.h has their names */
		uint64_t soft, hard;
	} rlimits[CELL_RLIMITS_MAX];    /* within those that a cell has in any case */
	uint32_t n_rlimits;
	uint32_t first_uid, first_gid;  /* owners in the layers, and in grants, that are 0 in the cell */
	bool readonly;                  /* only scratches and grants can be written */
	bool metacopy;                  /* the layers have files without contents, of an overlay file system */
};

struct cell_spec {
	char id[CELL_ID_LEN + 1];
	char *name;                     /* "" if none */
	char boundary[CELL_BOUNDARY_MAX + 1];   /* the kind of its walls; "" for the default */
	char *weaker;                   /* why it is not the strongest kind, which was preferred; or NULL */
	/* With a virtual machine: what it boots; NULL without one. */
	char *vm_kernel, *vm_initramfs;
	unsigned char vm_kernel_hash[HASH_LEN], vm_initramfs_hash[HASH_LEN];
	char *vm_disk;                  /* the programs of ROOTFS as a disk; NULL: that folder is shared */
	unsigned char vm_disk_hash[HASH_LEN];
	char vm_monitor[CELL_MONITOR_MAX + 1];  /* the program that runs it; "" for the default */
	bool vm_emulated;               /* without the help of the processor: for tests */
	bool vm_tap;                    /* its network card is a tap in the cell's network */
	bool vm_boots;                  /* from its kernel, not from a template */
	/* With an OCI runtime: the program, and what it is ("crun"); NULL and "" without one. */
	char *runtime;
	char runtime_kind[CELL_RUNTIME_MAX + 1];
	char *engine;                   /* the socket of the engine that has the image, and makes a container of it;
	                                 * NULL without one */
	char *hostname, *cwd;
	struct cell_bundle bundle;      /* of the folder ROOTFS */
	char *rootfs;                   /* a folder with the programs; "" for none */
	struct cell_image image;
	bool bare;                      /* no programs but those in grants */
	char **argv, **env;
	struct cell_grant *grants;
	size_t n_grants;
	struct cell_limits limits;
	enum cell_profile profile;
	bool root, detached, tty, quiet;
	bool clipboard;                 /* with tty: may set the operator's clipboard */
	bool claim;                     /* the id was chosen: creating its state entry claims it, or the
	                                 * start is refused */
	bool held;                      /* its agent starts on request: CONTROL_START */
	bool waits;                     /* without an argv: it stays until its time is over, or it is ended */
	bool keep;                      /* the state entry stays until it is discarded */
	bool streams;                   /* detached: stdout and stderr are kept separately, instead of a
	                                 * log */
	bool input;                     /* detached: standard input is relayed to the agent */
	char **setups;                  /* commands that run in the cell before the agent; NULL: none.
	                                 * Without an argv, the cell ends after them, unless it waits */
	char **starts;                  /* "HASH[,HASH] WORD": the programs that one of these, or the agent,
	                                 * executes if WORD starts it; NULL: any */
	char series[CELL_ID_LEN + 1];   /* with --restart: the id of the first of these cells; else "" */
	char restart_of[CELL_ID_LEN + 1];       /* and of the one before; "" in the first */
	/* With --forkable: the words of its `cloister run`, and the folder of that command, for its forks; else NULL. */
	char **again, *again_in;
	/* In a fork: the cell that it is a copy of, and the record of that cell's timeline after which it was made. */
	struct cell_origin {
		char id[CELL_ID_LEN + 1];       /* "": it is no fork */
		uint64_t at;
		char head[HASH_HEX + 1];        /* the hash of that record */
	} fork_of;
	char *principal;                /* on whose behalf it runs; "" or NULL: nobody's */
	char *chain;                    /* who dispatched it, outermost first: "a/b"; "" or NULL */
	/* Egress.  The policy and the operator's certificate authorities are in memory files of
	 * their own. */
	bool has_policy;                /* without one there is no network */
	bool has_authorities;
	bool has_secrets;               /* with a policy only */
	bool has_tools;                 /* the policy has tools: MCP servers of the agent */
	bool has_hooks;                 /* a rule of the policy asks a program of the operator's */
	bool learn;                     /* everything is allowed and recorded */
	char **sources;                 /* the operator's files that rules came from; NULL: none */
	char **egress_env;              /* the operator's proxies, for the courier */
	struct cell_port ports[CELL_PORTS_MAX]; /* --publish */
	size_t n_ports;
	uint32_t webhook_ports;         /* bit I: ports[I] receives webhooks, which are checked */
	/* With secrets. */
	char **placeholders;            /* names of variables in ENV that hold placeholders; NULL: none */
	char **secrets;                 /* "NAME SCHEME HOST...", in the courier's order; NULL: none */
	struct cell_file files[CELL_FILES_MAX];
	size_t n_files;
	enum cell_exfiltration exfiltration;
	uint32_t keeper;                /* host pid of the process that renews them; 0: none */
	/* The timeline. */
	bool audit_strict;              /* no request leaves before its record is on the disk */
	uint64_t audit_max;             /* bytes, after which no request leaves */
	enum cell_witness record;
	bool record_demanded;           /* the policy demands it: without it, the cell does not start */
	enum cell_witness_lost record_lost;
	/* Budgets that are watched while the cell sends no request: policy_watch(). */
	struct {
		uint64_t limits[2][2][2];
		bool times, principal, cpu;
	} watch;
	struct cell_state states[CELL_STATES_MAX];
	size_t n_states;
	char *known_hosts;              /* text of a known_hosts file for ssh; "": the cell has no SSH
	                                 * agent */
};

/* When a cell with TIME_MS left and a ttl of TTL_MS (0: none) ends even if its supervisor does
 * nothing.  The supervisor ends it first. */
#define CELL_TTL_GRACE_MS 10000         /* for a gentle stop at the ttl */
#define CELL_OVER_MS 1000
uint64_t cell_limits_over_ms(uint64_t time_ms, uint64_t ttl_ms);

/* 4 GiB, every CPU up to 4, 1024 processes, 24 h, 2 GiB, 1 GiB/s. */
void cell_limits_default(struct cell_limits *ret_limits);
/* The number of files that a disk of so many bytes may have. */
uint64_t cell_limits_inodes(uint64_t disk);

void cell_spec_put(struct buf *b, const struct cell_spec *spec);
/* On failure *ret_spec is untouched; on success the caller frees it. */
int cell_spec_get(struct buf *b, struct cell_spec *ret_spec, struct err *err);
void cell_spec_free(struct cell_spec *spec);    /* for OWN() too */
/* Free the files, once they are in place. */
void cell_spec_free_files(struct cell_spec *spec);
/* Whether PATH is valid for a file in the home folder: no "..", no empty part. */
bool cell_file_ok(const char *path);
enum cell_programs cell_spec_programs(const struct cell_spec *spec);
/* The ids of the agent, in the cell. */
uint32_t cell_spec_uid(const struct cell_spec *spec);
uint32_t cell_spec_gid(const struct cell_spec *spec);
bool cell_spec_has_overlay(const struct cell_spec *spec);
bool cell_spec_has_volume(const struct cell_spec *spec);         /* also for reading */
/* Whether it has a state that it may write, and hence a cloister-saver. */
bool cell_spec_writes_state(const struct cell_spec *spec);
/* Whether the cell's supervisor is started with the descriptor FD, CELL_SPEC_FD and up. */
bool cell_spec_has_fd(const struct cell_spec *spec, int fd);
/* Whether the cell has a state entry from the start. */
bool cell_spec_has_state(const struct cell_spec *spec);
/* Whether TEXT is one line of UTF-8 without hidden characters; "" is fine. */
/* A hash of all on which a machine of the cell depends: its forks have the same. */
void cell_spec_hash_machine(const struct cell_spec *spec, char ret_hash[HASH_HEX + 1]);
bool cell_principal_ok(const char *text);
/* Whether TEXT is names of agents separated by "/": a-z, 0-9, ".", "_", "-", each beginning with a
 * letter or digit; "" is fine. */
bool cell_chain_ok(const char *text);

/* A fresh random id. */
int cell_make_id(char ret_id[CELL_ID_LEN + 1], struct err *err);
/* Whether a chosen ID is valid: CELL_ID_LEN letters and digits. */
bool cell_id_ok(const char *id);
/* Names and ids: letters, digits, "-" and "_", beginning with a letter or digit. */
bool cell_name_ok(const char *name);
#endif
