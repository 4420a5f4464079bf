/* tls_lab.h - two sides of a connection, each sending and receiving a known pattern in a
 * manner of its own, and the certificates for it. */
#ifndef CLOISTER_TLS_LAB_H
#define CLOISTER_TLS_LAB_H
#include "base/err.h"
#include "test.h"
#include "tls/conn.h"

#define LAB_NAME "server.test"          /* what the certificates are for */

extern SSL_CTX *lab_server_ctx, *lab_client_ctx;
extern X509 *lab_expired;               /* the client trusts it, as far as that goes */

void lab_tls_up(void);
void lab_tls_down(void);
void lab_tls_over(void);                    /* nothing of TLS after this, in this process */
SSL *lab_server(void);
SSL *lab_client(const char *name);

struct side {
	struct conn conn;
	struct scene *scene;
	uint32_t state;
	size_t to_send, sent, got;
	size_t read_max;                /* at a time */
	bool corks, pauses, shuts;
	bool stopped;                   /* reads nothing until told to */
	bool heard_end, is_open;
	int readies, writables, shut_told, broken, read_error;
	char text[ERR_TEXT_MAX];
	struct loop_timer again;
	/* What it does instead, in a callback of this kind. */
	char closes_in;                 /* 'h'andshake, 'r'ead, 'w'rite, 'b'roken */
};

struct scene {
	struct loop *loop;
	struct side *sides[16];
	size_t n, left;                 /* those that go on */
};

uint32_t lab_draw(uint32_t *state, size_t below);
unsigned char lab_byte(size_t offset);  /* of the pattern */
void lab_pair(int ret_ends[2]);
void lab_tcp_pair(int ret_ends[2]);

void scene_up(struct scene *scene);
void scene_down(struct scene *scene);
/* Until nothing has happened for a while. */
void scene_run(struct scene *scene);
/* Both have shaken hands and say nothing more for now. */
void scene_talking(struct scene *scene, struct side *ret_sides[2], const int ends[2], bool tls);

struct side *side_new(struct scene *scene, uint32_t seed);
void side_start(struct side *s, int fd, SSL *ssl);
/* Send on, as far as that goes now. */
void side_push(struct side *s);
/* Write until nothing more is taken. */
void side_fill(struct side *s);
extern const struct conn_handler side_handler;
#endif
