/* probe.h - what the probes share: how they are listed and how they report.
 *
 * A probe is run as `probe NONCE [+wake] NAME ARG...`.  Reports are lines on stderr that
 * begin with '@'; what it got hold of goes to stdout as it is.  A report is
 * never the verdict where an effect can be seen from outside: the harness looks
 * for the canaries that it planted.  "@ready" says that the attempt itself was
 * reached: a probe that fell over before it counts as not run. */
#ifndef ESCAPE_PROBE_H
#define ESCAPE_PROBE_H
#include <stddef.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct probe {
	const char *name, *args;
	int (*run)(int argc, char **argv);      /* argv[0] is the first ARG */
	int min_args;
};

extern const struct probe probes_files[], probes_proc[], probes_namespaces[],
	probes_surface[], probes_sockets[], probes_descriptors[], probes_terminal[],
	probes_ipc[], probes_resources[], probes_exhaust[], probes_network[];

extern const char *probe_nonce;

void report_ready(void);
/* The attempt worked, as far as the probe can tell. */
int report_won(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* It did not: WHAT and errno. */
int report_lost(const char *what);

/* Copy at most LIMIT bytes of what can be read now to stdout. */
size_t spill_fd(int fd, size_t limit);
size_t spill_path(const char *path);
/* Write TEXT to FD, whole. */
int put(int fd, const char *text);
/* Sleep until killed, at most this long: nothing of a run outlives it. */
#define HOLD_SECONDS 30
int hold(void);

/* Ask the resolver at the gate's own address for a name, and await what it says. */
int wake_resolver(void);

/* A system call that returned R reached the kernel's own code: a filter says
 * EPERM, EACCES or ENOSYS, or kills. */
int reached(long r);
#endif
