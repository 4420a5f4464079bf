/* ssh_agent.h - parses requests to an SSH agent (draft-miller-ssh-agent, and the session-bind of
 * OpenSSH's PROTOCOL.agent), and the data that they want signed.
 *
 * Pure.  Any other request is refused.  The results point into the message. */
#ifndef CLOISTER_SSH_AGENT_H
#define CLOISTER_SSH_AGENT_H
#include "ssh/ssh_wire.h"

#define SSH_AGENT_MESSAGE_MAX (16 * 1024)       /* a longer message is not answered */
#define SSH_NAME_MAX 255                        /* a user */
#define SSH_SPACE_MAX 64                        /* the purpose of a signature: "git" */
#define SSH_ALGORITHM_MAX 64
#define SSH_SESSION_MIN 16
#define SSH_SESSION_MAX 64                      /* a digest */

enum ssh_agent_answer { SSH_AGENT_FAILURE = 5, SSH_AGENT_SUCCESS = 6, SSH_AGENT_IDENTITIES = 12,
                        SSH_AGENT_SIGNATURE = 14 };

/* SSH_ASKS_OTHER: to be answered with SSH_AGENT_FAILURE, without a record. */
enum ssh_asks { SSH_ASKS_LIST, SSH_ASKS_LOGIN, SSH_ASKS_TEXT, SSH_ASKS_BIND, SSH_ASKS_OTHER };

/* The client names its server, which has signed the session's id. */
struct ssh_bind {
	struct http_text host_key, session, signature;
	bool forwarding;
};

struct ssh_request {
	enum ssh_asks asks;
	struct ssh_bind bind;           /* SSH_ASKS_BIND */
	/* The others: the key and the algorithm. */
	struct http_text key;
	char algorithm[SSH_ALGORITHM_MAX + 1];
	/* SSH_ASKS_LOGIN: SSH_MSG_USERAUTH_REQUEST (RFC 4252, 7). */
	struct http_text session;
	char user[SSH_NAME_MAX + 1];
	struct http_text host_key;      /* publickey-hostbound-v00@openssh.com; else .at is NULL */
	/* SSH_ASKS_TEXT: a signature of `ssh-keygen -Y sign` (OpenSSH's PROTOCOL.sshsig). */
	char space[SSH_SPACE_MAX + 1];
	char hash[SSH_ALGORITHM_MAX + 1];
	struct http_text digest;
};

/* MESSAGE is without its length.  -EBADMSG: it must be refused and recorded; *ret_why is a
 * sentence. */
int ssh_request_read(struct http_text message, struct ssh_request *ret_request,
                     const char **ret_why);

/* Write the data to sign, as the client builds it, from the parsed request.  So the signer does not
 * have to trust bytes from the client. */
void ssh_put_login(struct buf *b, const struct ssh_request *r);
void ssh_put_text(struct buf *b, const struct ssh_request *r);
#endif
