/* webhook_channel.h - what cloister-publish asks the courier about webhooks: datagrams, see ipc.h.
 *
 * The channel is there as long as the cell is.  The courier is not: a question that nobody reads
 * makes the supervisor, which only watches, start it. */
#ifndef CLOISTER_WEBHOOK_CHANNEL_H
#define CLOISTER_WEBHOOK_CHANNEL_H

#define PUBLISH_WEBHOOK_FD 5            /* cloister-publish: not open where there are none */
#define COURIER_WEBHOOK_FD 6            /* courier: likewise */

enum webhook_message {
	/* publish -> courier: u32 number, u32 port (the cell's), then the head of a request
	 * (http/http_head.h) whose length is the body's; fd: a sealed memory file that is the
	 * body, unless there is none. */
	WEBHOOK_CHECK = 1,
	/* courier -> publish: u32 number (of the question), u32 status.  0: its signature is right;
	 * the head to send instead follows.  Else it is refused with that status: str reason. */
	WEBHOOK_CHECKED,
};
#define WEBHOOK_BODY_MAX (1024 * 1024)
#endif
