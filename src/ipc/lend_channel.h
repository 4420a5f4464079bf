/* lend_channel.h - messages between a cell's cloister-vault and the worker that runs the cell: a SOCK_SEQPACKET socket, see
 * ipc.h.  The worker asks the service, over its stream, and sees sealed boxes alone (vault/lend.h). */
#ifndef CLOISTER_LEND_CHANNEL_H
#define CLOISTER_LEND_CHANNEL_H

#define LEND_KEY 32                     /* bytes of a public key */
#define LEND_BOX_MAX (9 * 1024 * 1024)  /* bytes of a box: BOUND_ENCODED_MAX, and more */
#define LEND_WHY_MAX 1024
#define LEND_PATIENCE_MS 60000          /* how long a service may be away */

enum lend_message {
	/* worker -> vault, once, first: str dispatch, u64 claim, str service, str worker */
	LEND_FOR = 1,
	/* vault -> worker: LEND_KEY bytes; answered with LEND_BOX or LEND_REFUSED.  One question at a time. */
	LEND_ASK,
	/* worker -> vault; fd: a memory file */
	LEND_BOX,
	/* worker -> vault: str why */
	LEND_REFUSED,
};
#endif
