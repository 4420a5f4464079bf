/* lend_channel.h - messages between cloister-vault of a cell and the worker that runs the cell: a SOCK_SEQPACKET socket, see
 * ipc.h.  The worker asks the service, over its stream, and sees sealed boxes alone (vault/lend.h).
 *
 * The worker listens at LEND_SOCKET and the name of its data folder, in the runtime folder.  Each connection is one question,
 * so a worker that was started again answers as well as the one that has started the cell. */
#ifndef CLOISTER_LEND_CHANNEL_H
#define CLOISTER_LEND_CHANNEL_H

#define LEND_SOCKET "lend."
#define LEND_KEY 32                     /* bytes of a public key */
#define LEND_NAMES_MAX 64               /* secrets of one question */
#define LEND_BOX_MAX (9 * 1024 * 1024)  /* bytes of a box: BOUND_ENCODED_MAX, and more */
#define LEND_WHY_MAX 1024
#define LEND_PATIENCE_MS 60000          /* how long a service may be away */
/* What a cell's secrets are lent for: a variable of `cloister run` and all that it starts, see lend_claim_parse(). */
#define LEND_VARIABLE "CLOISTER_LENT"

enum lend_message {
	/* vault -> worker: str dispatch, u64 claim, str service, str worker, LEND_KEY bytes, u32 n, n times str name of a
	 * secret; answered with LEND_BOX or LEND_REFUSED */
	LEND_ASK = 1,
	/* worker -> vault; fd: a memory file */
	LEND_BOX,
	/* worker -> vault: str why */
	LEND_REFUSED,
};
#endif
