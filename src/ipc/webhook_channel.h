/* webhook_channel.h - messages from cloister-publish to the courier about webhooks: datagrams, see
 * ipc.h.
 *
 * The channel lives as long as the cell; the courier may not.  The supervisor only watches the
 * channel: if nobody reads a question, it starts a courier. */
#ifndef CLOISTER_WEBHOOK_CHANNEL_H
#define CLOISTER_WEBHOOK_CHANNEL_H

#define PUBLISH_WEBHOOK_FD 5            /* cloister-publish: not open without webhooks */
#define COURIER_WEBHOOK_FD 6            /* courier: not open without webhooks */

enum webhook_message {
	/* publish -> courier: u32 number, u32 port (the cell's), then a request's head
	 * (http/http_head.h) with its body's length; fd: a sealed memory file with the body, if
	 * there is one. */
	WEBHOOK_CHECK = 1,
	/* courier -> publish: u32 number (of the question), u32 status.  0: the signature is valid,
	 * and the head to send instead follows.  Otherwise the request is refused with that status:
	 * str reason. */
	WEBHOOK_CHECKED,
};
#define WEBHOOK_BODY_MAX (1024 * 1024)
#endif
