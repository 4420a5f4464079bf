/* init_channel.h - messages between the supervisor and a cell's init.
 *
 * They are datagrams with descriptors, or frames of a mux where walls pass no descriptors: then a
 * frame's type is INIT_FRAME() of the message, and streams take the place of descriptors.  Before the
 * first frame, init sends INIT_READY or INIT_FAILED behind its length, a u32.
 *
 * init is inside the sandbox.  The supervisor accepts only the messages below from it, and ends the
 * cell at anything else. */
#ifndef CLOISTER_INIT_CHANNEL_H
#define CLOISTER_INIT_CHANNEL_H
#include "base/call.h"

#define INIT_CHANNEL_FD 3               /* in init */
#define INIT_LANDLOCK_FD 4              /* in init, if there is a ruleset */
#define INIT_TIMING_FD 5                /* in init, with --timing: base/timing.h */
#define INIT_FORK_FD 7                  /* in init of a machine that can be copied: to cloister-guest's forker */
#define INIT_SSH_FD 6                   /* in init, over a mux in a cell with known_hosts: listens at the SSH
                                         * agent's socket */

/* Letters in init's third argument. */
#define INIT_HAS_LANDLOCK 'L'
#define INIT_HAS_SSH 'H'
#define INIT_HAS_FORKER 'K'
#define INIT_BY_STREAM 'S'
#define INIT_IS_TIMED 'T'
/* In a container: the channel is standard input, and init makes the other descriptors itself.  The fourth
 * argument is the most processes that its user may have, init included.  The others are paths that the agent may
 * write. */
#define INIT_IN_CONTAINER 'C'
#define INIT_IN_SANDBOX 'B'             /* the container has a kernel of its own, such as gVisor's */
#define INIT_NAMES_AGENT 'U'            /* the container's one user is root: init makes it the agent */
#define INIT_IS_NESTED 'N'              /* the agent may make namespaces and mounts of its own */
#define INIT_BY_ENGINE 'E'              /* an engine started it: see proc/init/init_engine.c */
#define INIT_NOTIFIES 'W'               /* the agent's filter reports calls: INIT_LISTENER; not over a mux */
/* In the environment, with INIT_NOTIFIES: the calls that are taken away from all of its processes (call_set_put), in
 * hex.  The filter reports those that init does not make itself. */
#define INIT_CALLS "CLOISTER_CALLS"
#define INIT_CALLS_LEN (4 + 2 * CALL_NUMBERS_MAX / 8)
/* Its limit on open files, if it is at least INIT_FILES_LEAST, is so much above the agent's: descriptors that the agent has
 * under way do not keep it from sending the listener. */
#define INIT_SPARES_FILES 'F'
#define INIT_FILES_SPARED 512
#define INIT_FILES_LEAST 3584

enum init_message {
	/* supervisor -> the child that sets up the cell: the id maps are written. */
	INIT_GO = 1,
	/* child or init -> supervisor: u32 errno, str text.  The cell did not start. */
	INIT_FAILED,
	/* child -> supervisor, one for each overlay: u32 grant; fd: its upper folder. */
	INIT_UPPER,
	/* child -> supervisor; fd: the cell's scratch space. */
	INIT_SCRATCH,
	/* supervisor -> child: u32 whether the agent's filter notifies (INIT_NOTIFIES); fd: the cell's network
	 * namespace. */
	INIT_NET,
	/* child -> supervisor, in a cell with known_hosts; fd: the SSH agent's socket.  Over a mux, init
	 * keeps it: INIT_ACCEPT. */
	INIT_SSH,
	/* init -> supervisor: the sandbox restrictions are in force, ready to spawn. */
	INIT_READY,
	/* supervisor -> init: u32 handle, u32 flags, u32 rows, u32 columns, str cwd,
	 * strv argv, strv env, strv hashes; fds: stdin, stdout, stderr (with INIT_TTY: none,
	 * or stderr alone).  An agent without any words exits with 0 at once.  The hashes are
	 * those of the files that it executes until its program runs; none: any.  Behind them, the calls
	 * that it may not make (call_set_put), and u32 lists, strv programs, ...: it executes no other program than its
	 * own and those that all lists have. */
	INIT_SPAWN,
	/* init -> supervisor: u32 handle, u32 errno (0: it runs; EUCLEAN: its hash is another), u32 pid inside;
	 * fd: the terminal's master side, with INIT_TTY. */
	INIT_SPAWNED,
	/* supervisor -> init: u32 handle, u32 signal. */
	INIT_SIGNAL,
	/* init -> supervisor: u32 handle, u32 status as wait(2) gives it. */
	INIT_EXITED,
	/* supervisor -> init: u64 ms from now on, after which init ends the cell, whatever the
	 * supervisor does. init's second argument is the first such limit. */
	INIT_LIMIT,

	/* Only over a mux.  There, INIT_SPAWN begins with u32 stream, u32 stream: standard input and
	 * output, or the terminal; and standard error, the same if it goes to the same place, or 0 if
	 * it goes to the terminal.  INIT_PART holds bytes that belong before those of the next
	 * INIT_SPAWN, behind its streams. */
	INIT_PART,
	/* supervisor -> init: u32 handle, u32 rows, u32 columns. */
	INIT_RESIZE,
	/* Both ways, on a stream: no more bytes come, or no more bytes are taken. */
	INIT_END, INIT_SHUT,
	/* init of a virtual machine -> supervisor: u64 processes that the guest's kernel killed for memory,
	 * u32 whether the scratch space is full.  The last message of all. */
	INIT_OVER,
	/* supervisor -> init: u32 stream, u32 port.  Init connects to that port of the cell's loopback, and
	 * joins the connection with the stream. */
	INIT_CONNECT,
	/* supervisor -> init: u32 stream.  The same for the next connection to the SSH agent's socket.  One
	 * at a time: there is no other before the answer. */
	INIT_ACCEPT,
	/* init -> supervisor: u32 stream, u32 errno (0: the stream is joined).  Before this, neither side
	 * uses the stream. */
	INIT_CONNECTED,
	/* init -> supervisor, before INIT_READY; fd: the listener of the agent's filter.  From now on, calls
	 * that the filter reports wait for an answer: init's own and the agent's. */
	INIT_LISTENER,
	/* Only with a forker.  supervisor -> init: the machine is to be copied.  The supervisor sends no frame after it, and
	 * neither does init after its answer, until they go on: all processes of the cell stand still.  Then the supervisor
	 * sends a u32 to the forker: 0, and everybody goes on; or, in a copy, the length of a message as of vm_guest.h.
	 * In that case init forgets all streams, ends the commands of `exec`, and begins anew with INIT_READY. */
	INIT_HOLD,
	/* init -> supervisor: nothing moves. */
	INIT_HELD,
};
#define INIT_FRAME(message) (8 + (uint32_t)(message))   /* MUX_TYPES: a mux's own are below */

enum init_spawn_flags {
	INIT_TTY = 1,
	INIT_ADOPT = 4,                 /* in a copy: the agent runs already, and gets these streams */
	INIT_OWN = 2,                   /* the first word names one of init's own programs: proc/init/init_own.c */
};
/* Init's own programs.  They run as any other command of the cell, and exit with 0 or an errno. */
#define INIT_OWN_WAIT "cloister-wait"           /* until a signal ends it */
#define INIT_OWN_READ "cloister-read"           /* PATH MAX: a regular file of at most MAX bytes, to standard output */
#define INIT_OWN_WRITE "cloister-write"         /* PATH SIZE: as many bytes of standard input, to a regular file */
#define INIT_OWN_LIST "cloister-list"           /* PATH MAX: a folder's entries, as lines of JSON */
/* PATH yes|no|names|all-names: changes of a file or folder, as lines of JSON; yes: and beneath it.  The last two tell
 * renamed entries and changed attributes apart (init_watch.c). */
#define INIT_OWN_WATCH "cloister-watch"
#define INIT_OWN_DIAL "cloister-dial"           /* PORT: joins standard input and output with a port of the cell */
/* These print the entry that they leave, and TREE those beneath a folder, as lines of JSON (init_entries.c). */
#define INIT_OWN_STAT "cloister-stat"           /* PATH */
#define INIT_OWN_TREE "cloister-tree"           /* PATH MAX DEPTH */
#define INIT_OWN_MAKE_FOLDER "cloister-make-folder"     /* PATH: and those above it */
#define INIT_OWN_MOVE "cloister-move"           /* FROM TO: and makes the folders above TO */
#define INIT_OWN_REMOVE "cloister-remove"       /* PATH: a folder with all that is beneath it; prints nothing */

/* Handle 0 is the agent: when it exits, so does init, and the cell ends. */
#define INIT_HANDLE_AGENT 0
#define INIT_HANDLE_SETUP UINT32_MAX    /* the setup command, which runs before it */
#define INIT_EXECS_MAX 2                /* hashes of INIT_SPAWN */
#define INIT_PROGRAM_LISTS_MAX 16       /* as many as a policy has layers */
#define INIT_PROGRAMS_MAX 256           /* in one list */
#define INIT_PROCESSES_MAX 64           /* started by exec, at the same time */
#endif
