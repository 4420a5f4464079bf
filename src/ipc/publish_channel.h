/* publish_channel.h - messages between cloister-publish and the supervisor, if servers in the cell can be
 * reached only over the cell's port: datagrams, see ipc.h.
 *
 * The supervisor believes publish only about which of the published ports a connection is for. */
#ifndef CLOISTER_PUBLISH_CHANNEL_H
#define CLOISTER_PUBLISH_CHANNEL_H

#define PUBLISH_SUPERVISOR_FD 6         /* cloister-publish: not open if it connects by itself */

enum publish_message {
	/* publish -> supervisor: u32 number, u32 port (the cell's). */
	PUBLISH_CONNECT = 1,
	/* supervisor -> publish: u32 number (of the question), u32 errno (0: connected); fd: a socket that
	 * stands for the connection. */
	PUBLISH_CONNECTED,
};
#endif
