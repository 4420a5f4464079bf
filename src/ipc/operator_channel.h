/* operator_channel.h - messages between the halves of `cloister operator`: datagrams, see ipc.h. */
#ifndef CLOISTER_OPERATOR_CHANNEL_H
#define CLOISTER_OPERATOR_CHANNEL_H

enum operator_message {
	/* worker -> keeper: a connection to the agents' socket of the service. */
	OPERATOR_CONNECT = 1,

	/* keeper -> worker, with that descriptor, or without any. */
	OPERATOR_CONNECTED,
	OPERATOR_REFUSED,
};
#endif
