/* egress_lab.h - a courier in this process, between a gate and a server that the test
 * plays. */
#ifndef CLOISTER_EGRESS_LAB_H
#define CLOISTER_EGRESS_LAB_H
#include <stdbool.h>
#include <stdint.h>

#include "egress/courier.h"
#include "ipc/courier_channel.h"
#include "proc/courier/courier_gate.h"

#define LAB_HOST "host.cloister.internal"
#define LAB_STREAMS 8

/* What came back on a stream. */
struct lab_stream {
	uint32_t routed;                /* and 1, so that 0 is none */
	uint16_t status;
	bool has_body, ended, is_reset;
	size_t logged;                  /* EGRESS_LOGGED */
	uint32_t reset;
	struct buf data;
};

struct lab {
	struct courier courier;
	struct loop *loop;
	int gate, supervisor;           /* the test's ends */
	int gate_end, supervisor_end;   /* the courier's */
	struct buf in;                  /* from the courier, not yet taken apart */
	struct lab_stream streams[LAB_STREAMS];
	struct buf events;              /* all of them, as text */
	bool gone;                      /* the courier has ended the channel */

	int listener, server;           /* the server's connection, -1: none yet */
	uint16_t port;
	struct buf heard;               /* by the server, on the connection that it has now */
	size_t connections;
	struct loop_timer tick;
	bool (*until)(struct lab *lab);
	size_t ticks;
};

/* RULES are those of a policy; "PORT" in them becomes the server's. */
void lab_start(struct lab *lab, const char *rules);
void lab_end(struct lab *lab);
/* Until UNTIL is true; the test fails if it does not become so. */
void lab_run(struct lab *lab, bool (*until)(struct lab *lab));
/* For a moment, so that what might happen has happened. */
void lab_settle(struct lab *lab);

/* A request on stream ID to the server (or to HOST). */
void lab_ask(struct lab *lab, uint32_t id, const char *method, uint64_t length);
void lab_ask_for(struct lab *lab, uint32_t id, const char *method, const char *host,
                 const char *connection, uint64_t length);
void lab_route(struct lab *lab, uint32_t id, enum egress_looks looks, const char *sni);
void lab_send(struct lab *lab, uint32_t id, uint32_t type, const void *data, size_t len);
void lab_send_end(struct lab *lab, uint32_t id);
void lab_give_credit(struct lab *lab, uint32_t id, uint32_t bytes);
/* What the server says. */
void lab_answer(struct lab *lab, const char *text);
void lab_hang_up(struct lab *lab);
bool lab_heard(const struct lab *lab, const char *text);
bool lab_recorded(const struct lab *lab, const char *text);
/* What came on a stream, as text. */
const char *lab_data(struct lab *lab, uint32_t id);
#endif
