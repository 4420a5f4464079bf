/* link_channel.h - messages between cloister-link, which speaks TLS, and the process that started it.
 *
 * A SOCK_SEQPACKET socket, LINK_CHANNEL_FD of cloister-link.  Only cloister-link sends.  When the other end is closed,
 * it ends. */
#ifndef CLOISTER_LINK_CHANNEL_H
#define CLOISTER_LINK_CHANNEL_H

#define LINK_CHANNEL_FD 3

enum link_message {
	/* u32 port: it listens there.  The service's first message, unless LINK_FAILED is. */
	LINK_LISTENS = 1,
	/* str why: it cannot work, and ends */
	LINK_FAILED,
	/* str id, str name, str home, str pool ("": any); fd: a worker's stream, which is authenticated.  The end of the
	 * descriptor is the end of the connection, in both directions. */
	LINK_WORKER,
	/* str home; fd: the stream to that service */
	LINK_SERVICE,
	/* str home, str why: that service cannot be reached now, and is tried again.  Sent once for each reason. */
	LINK_AWAY,
	/* str home, str why: that service has removed this worker.  It is tried again, rarely. */
	LINK_REMOVED,
};
#define LINK_CHANNEL_TEXT_MAX 1024

/* The first bytes inside TLS, in both directions: u32 length, and a message of at most LINK_HELLO_MAX bytes.  A worker
 * without a certificate begins; one with a certificate waits.  Behind LINK_WELCOME come the frames of a mux. */
enum link_hello {
	/* worker -> service: str secret, str name, str home, str pool, str request for a certificate */
	LINK_ENROL = 1,
	/* service -> worker: str home, str id, str certificate */
	LINK_ENROLLED,
	/* service -> worker: str home */
	LINK_WELCOME,
	/* service -> worker: str why */
	LINK_REFUSED,
};
#define LINK_HELLO_MAX 16384
#endif
