/* gate_dns.c - the cell's resolver: gives a synthetic address to a name that a rule mentions; any
 * other name does not exist. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_net.h"
#include "http/dns.h"
#include "proc/gate/gate.h"
#include "proc/gate/gate_dns_ptr.h"
#include "proc/gate/gate_names.h"
#include "proc/gate/gate_tls.h"

#define DNS_TTL 30                      /* seconds: the policy may change */
#define DNS_QUESTIONS_MAX 256           /* that wait for the courier */
#define DNS_BATCH 32

/* The client: a connection, or an address at one of the two sockets. */
struct dns_client {
	struct gate_conn *gc;           /* NULL: over UDP */
	int fd;
	socklen_t from_len;
	struct sockaddr_storage from;
};

struct dns_pending {
	struct gate *gate;
	struct gate_stream stream;
	struct dns_client client;
	struct dns_question question;
	size_t len;
	unsigned char query[];
};

/* A connection that sends one query after the other. */
struct gate_dns {
	struct dns_pending *pending;
	size_t len;
	unsigned char data[2 + DNS_MESSAGE_MAX];
};

/* ---- responses ---- */

static void
dns_send(const struct dns_client *client, const unsigned char *answer, size_t len)
{
	unsigned char size[2] = { (unsigned char)(len >> 8), (unsigned char)len };

	if (client->gc == NULL) {
		sendto(client->fd, answer, len, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&client->from, client->from_len);
		return;
	}
	gate_conn_touch(client->gc);
	if (gate_conn_write(client->gc, size, sizeof(size)))
		gate_conn_write(client->gc, answer, len);
}

static void
dns_answer(const struct dns_client *client, const unsigned char *query,
           const struct dns_question *question, enum dns_rcode code, const void *address)
{
	unsigned char answer[DNS_MESSAGE_MAX];

	dns_send(client, answer, dns_write_answer(query, question, code, address, DNS_TTL, answer));
}

/* The address of number NUMBER, in the form that the query asks for.  NULL: it asks for something
 * else. */
static const void *
dns_synthetic(uint16_t type, uint32_t number, unsigned char ret_address[16])
{
	uint32_t v4 = htobe32(CELL_NET_BASE4 + number), low = htobe32(number);

	if (type == DNS_A) {
		memcpy(ret_address, &v4, 4);
		return ret_address;
	}
	if (type != DNS_AAAA)
		return NULL;
	inet_pton(AF_INET6, CELL_NET_PREFIX6 "::", ret_address);
	memcpy(ret_address + 12, &low, 4);
	return ret_address;
}

static void
dns_answer_number(const struct dns_client *client, const unsigned char *query,
                  const struct dns_question *question, uint32_t number)
{
	unsigned char address[16];

	dns_answer(client, query, question, DNS_OK,
	           dns_synthetic(question->type, number, address));
}

/* ---- answers without the courier ---- */

static void
dns_answer_ptr(struct gate *g, const struct dns_client *client, const unsigned char *query,
               const struct dns_question *question, const struct sockaddr_storage *address)
{
	unsigned char answer[DNS_MESSAGE_MAX];
	uint32_t number = gate_synthetic_number(address);
	const char *name = number == 1 ? CELL_NET_GATE_NAME : gate_names_get(g->names, number);

	if (name == NULL)
		dns_answer(client, query, question, DNS_NXDOMAIN, NULL);
	else
		dns_send(client, answer, gate_dns_ptr_write(query, question, name, DNS_TTL, answer));
}

static bool
dns_is_localhost(const char *name)
{
	size_t len = strlen(name);

	return strcmp(name, "localhost") == 0 ||
	       (len > 10 && strcmp(name + len - 10, ".localhost") == 0);
}

/* True: it was answered. */
static bool
dns_answer_locally(struct gate *g, const struct dns_client *client, const unsigned char *query,
                   const struct dns_question *question)
{
	static const unsigned char loopback4[] = { 127, 0, 0, 1 };
	const void *loopback = question->type == DNS_A ? (const void *)loopback4 :
	                       question->type == DNS_AAAA ? (const void *)&in6addr_loopback : NULL;
	struct sockaddr_storage address;

	/* Any other name here is an ordinary name, which may be an attempt at exfiltration. */
	if (question->type == DNS_PTR && gate_dns_ptr_parse(question->name, &address) == 0)
		dns_answer_ptr(g, client, query, question, &address);
	else if (dns_is_localhost(question->name))
		dns_answer(client, query, question, DNS_OK, loopback);
	else if (strcmp(question->name, CELL_NET_GATE_NAME) == 0)
		dns_answer_number(client, query, question, 1);
	else
		return false;
	return true;
}

/* ---- asking the courier ---- */

/* Detach first: if the response cannot be written, the connection ends. */
static void
dns_detach(struct dns_pending *p)
{
	if (p->client.gc != NULL)
		((struct gate_dns *)p->client.gc->state)->pending = NULL;
	gate_stream_forget(&p->stream);
	p->gate->n_questions--;
}

static int
dns_frame(void *owner, uint32_t type, struct buf *body)
{
	struct dns_pending *p = owner;
	uint32_t permitted = 0, number;

	if (type != EGRESS_RESET &&
	    (type != EGRESS_RESOLVED || buf_get_u32(body, &permitted) < 0))
		return -EBADMSG;
	dns_detach(p);
	if (type == EGRESS_RESET) {
		dns_answer(&p->client, p->query, &p->question, DNS_SERVFAIL, NULL);
	} else if (permitted == 0) {
		/* Resolvers retry after REFUSED, but accept this. */
		dns_answer(&p->client, p->query, &p->question, DNS_NXDOMAIN, NULL);
	} else {
		number = gate_names_add(p->gate->names, p->question.name, loop_now_ms());
		if (number == 0)
			dns_answer(&p->client, p->query, &p->question, DNS_SERVFAIL, NULL);
		else
			dns_answer_number(&p->client, p->query, &p->question, number);
		gate_tls_warm_up(p->gate);
	}
	if (p->client.gc != NULL && !p->client.gc->is_dead)
		conn_resume_reading(&p->client.gc->conn);
	free(p);
	return 0;
}

static const struct gate_stream_handler dns_handler = { .frame = dns_frame };

static struct dns_pending *
dns_ask(struct gate *g, const struct dns_client *client, const unsigned char *query, size_t len,
        const struct dns_question *question)
{
	struct dns_pending *p = NULL;

	if (g->n_questions < DNS_QUESTIONS_MAX && !mux_is_full(g->mux))
		p = malloc(sizeof(*p) + len);
	if (p == NULL)
		return NULL;
	*p = (struct dns_pending){ .gate = g, .client = *client, .question = *question, .len = len };
	memcpy(p->query, query, len);
	if (!gate_stream_open(g, &p->stream, &dns_handler, p)) {
		free(p);
		return NULL;
	}
	g->n_questions++;
	buf_reset(&g->frame);
	buf_put_str(&g->frame, question->name);
	buf_put_u32(&g->frame, question->type);
	mux_send(g->mux, p->stream.mux->id, EGRESS_RESOLVE, &g->frame);
	return p;
}

/* Handle a query.  Returns it if it waits for the courier. */
static struct dns_pending *
dns_take(struct gate *g, const struct dns_client *client, const unsigned char *query, size_t len)
{
	struct dns_question question;
	struct dns_pending *p = NULL;
	int r = dns_parse_query(query, len, &question);

	if (r < 0)
		gate_note(g, client->gc, EGRESS_NOTE_DNS, 0, r == -EBADMSG ?
		          "this is not a DNS query" :
		          question.deserves == DNS_NOTIMP ? "a DNS query asks for something other than a "
		          "lookup" :
		          "a DNS query is malformed");
	if (r == -ENOTSUP)
		dns_answer(client, query, &question, question.deserves, NULL);
	if (r < 0 || dns_answer_locally(g, client, query, &question))
		return NULL;
	p = dns_ask(g, client, query, len, &question);
	if (p == NULL)
		dns_answer(client, query, &question, DNS_SERVFAIL, NULL);
	return p;
}

/* ---- UDP ---- */

static void
dns_ready(void *arg, struct loop_source *source)
{
	struct gate *g = arg;
	struct dns_client client = { .fd = source->fd };
	unsigned char query[DNS_MESSAGE_MAX];
	ssize_t n;

	for (int i = 0; i < DNS_BATCH; i++) {
		client.from_len = sizeof(client.from);
		n = recvfrom(source->fd, query, sizeof(query), MSG_DONTWAIT,
		             (struct sockaddr *)&client.from, &client.from_len);
		if (n < 0)
			return;
		(void)dns_take(g, &client, query, (size_t)n);
	}
}

static void
dns_ready4(void *arg, uint32_t events)
{
	(void)events;
	dns_ready(arg, &((struct gate *)arg)->resolvers[0]);
}

static void
dns_ready6(void *arg, uint32_t events)
{
	(void)events;
	dns_ready(arg, &((struct gate *)arg)->resolvers[1]);
}

int
gate_dns_listen(struct gate *g, size_t i, int fd, struct err *err)
{
	g->resolvers[i] = (struct loop_source){
		.fd = fd, .ready = i == 0 ? dns_ready4 : dns_ready6, .arg = g,
	};
	return loop_watch(g->loop, &g->resolvers[i], EPOLLIN, err);
}

/* ---- TCP: each message is preceded by its length ---- */

static void
dns_ended(struct gate_conn *gc)
{
	struct gate_dns *d = gc->state;

	if (d->pending != NULL) {
		gate_stream_reset(&d->pending->stream, EGRESS_RESET_CANCEL);
		gc->gate->n_questions--;
		free(d->pending);
	}
	gc->state = NULL;
	free(d);
}

static void
dns_readable(struct gate_conn *gc)
{
	struct dns_client client = { .gc = gc };
	struct gate_dns *d = gc->state;
	size_t need;
	ssize_t n;

	while (d->pending == NULL) {
		need = d->len < 2 ? 2 : 2 + (size_t)(d->data[0] << 8 | d->data[1]);
		if (need > sizeof(d->data)) {
			gate_conn_drop(gc, true);
			return;
		}
		if (d->len == need) {
			d->len = 0;
			d->pending = dns_take(gc->gate, &client, d->data + 2, need - 2);
			gate_conn_set_late(gc, GATE_IDLE_MS);
			if (gc->is_dead)
				return;
			continue;
		}
		n = conn_read(&gc->conn, d->data + d->len, need - d->len);
		if (n == -EAGAIN)
			return;
		if (n <= 0) {
			gate_conn_drop(gc, n < 0);
			return;
		}
		d->len += (size_t)n;
	}
	conn_pause_reading(&gc->conn);
}

static const struct gate_protocol dns = { .readable = dns_readable, .ended = dns_ended };

void
gate_dns_start(struct gate_conn *gc)
{
	struct gate_dns *d = calloc(1, sizeof(*d));

	if (d == NULL) {
		gate_conn_drop(gc, true);
		return;
	}
	gate_conn_use(gc, &dns, d);
	gate_conn_set_idle(gc, true);
	gate_conn_set_late(gc, GATE_HEAD_MS);
	conn_resume_reading(&gc->conn);
}
