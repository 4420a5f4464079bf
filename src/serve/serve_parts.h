/* serve_parts.h - shared by the files of the server. */
#ifndef CLOISTER_SERVE_PARTS_H
#define CLOISTER_SERVE_PARTS_H
#include "http/h1.h"
#include "loop/loop.h"
#include "serve/serve.h"
#include "tls/conn.h"

enum serve_step {
	STEP_IDLE,                      /* between requests, or before the first */
	STEP_HEAD, STEP_BODY,           /* being read */
	STEP_ASKED,                     /* the handler has it */
	STEP_ANSWERS, STEP_STREAMS,     /* being written */
	STEP_LINGERS,                   /* all is sent; the client may still be reading */
	STEP_DEAD,
};

struct serve_doorway {
	struct serve_server *server;
	struct serve_door door;
	struct loop_source source;
	size_t n_conns;
};

struct serve_conn {
	struct serve_conn *next, **at;
	struct serve_doorway *way;
	struct conn conn;
	struct h1_reader reader;
	enum serve_step step;
	struct serve_request *request;  /* from its head to its response */
	struct loop_timer late;
	struct loop_round again;
	struct buf raw;                 /* of a door that carries: what a request's head came with */
	bool is_carried;
	struct buf ahead;               /* received before the last response was sent */
	uint64_t body_since_ms;
	uint64_t written, taken;        /* given to the conn; sent by the last check */
	uid_t uid;
	bool keep_alive;                /* of the current request */
	bool ended;                     /* the client will send no more */
	bool failed;                    /* nothing more can be written: dropped at the end of the round */
	bool is_unsure;                 /* its first byte decides whether it speaks TLS */
	bool is_known;                  /* its identity was shown and accepted */
	/* The rest of a response, to be written. */
	struct buf out;
	size_t out_at;
	int out_fd;
	uint64_t out_left;
};

struct serve_server {
	struct loop *loop;
	const struct serve_handler *handler;
	void *arg;
	int spool;
	struct serve_doorway ways[SERVE_DOORS_MAX];
	size_t n_ways;
	struct serve_conn *conns, *dead;
	struct loop_round bury;
	struct loop_timer retry;        /* accepting, after it failed */
	struct serve_stats stats;
	uint64_t idle_since_ms;
	bool stopping;
	void (*stopped)(void *arg);
	void *stopped_arg;
};

/* ---- serve_conn.c ---- */
void serve_conn_take(struct serve_doorway *way, int fd);
void serve_conn_drop(struct serve_conn *c, bool abrupt);
void serve_conn_late(struct serve_conn *c, unsigned seconds);
/* The response was handed over: continues with the next request, or ends. */
void serve_conn_answered(struct serve_conn *c);

/* ---- serve_answer.c ---- */
/* Continues writing; true once the whole response was given to the connection. */
bool serve_conn_pump(struct serve_conn *c);
void serve_request_free(struct serve_request *q);

/* ---- serve_body.c ---- */
size_t serve_body_kept(const struct serve_door *door);
/* 0, -EFBIG beyond q->body_max, -EIO if it cannot be stored. */
int serve_body_add(struct serve_request *q, int spool, const char *data, size_t len);
void serve_body_free(struct serve_body *body);

/* ---- serve_door.c ---- */
/* Whether Q has access; if not, it has been refused. */
bool serve_door_check(struct serve_request *q);
void serve_doors_watch(struct serve_server *s);
#endif
