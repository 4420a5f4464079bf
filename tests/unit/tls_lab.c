/* tls_lab.c - see tls_lab.h. */
#include "tls_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <time.h>

/* ---- certificates, made here and now ---- */

static EVP_PKEY *key;
static X509 *good;
X509 *lab_expired;

static X509 *
make_certificate(const char *called, long from, long until)
{
	X509 *x = X509_new();
	X509V3_CTX ctx;
	X509_EXTENSION *names;

	CHECK(x != NULL);
	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), from);
	X509_gmtime_adj(X509_getm_notAfter(x), until);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
	                           (const unsigned char *)called, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_set_pubkey(x, key);
	X509V3_set_ctx(&ctx, x, x, NULL, NULL, 0);
	names = X509V3_EXT_conf_nid(NULL, &ctx, NID_subject_alt_name, "DNS:" LAB_NAME);
	X509_add_ext(x, names, -1);
	X509_EXTENSION_free(names);
	CHECK(X509_sign(x, key, EVP_sha256()) > 0);
	return x;
}

SSL_CTX *lab_server_ctx, *lab_client_ctx;

void
lab_tls_up(void)
{
	key = EVP_EC_gen("P-256");
	CHECK(key != NULL);
	good = make_certificate("good", -3600, 3600);
	lab_expired = make_certificate("expired", -7200, -3600);
	lab_server_ctx = SSL_CTX_new(TLS_server_method());
	lab_client_ctx = SSL_CTX_new(TLS_client_method());
	CHECK(SSL_CTX_use_certificate(lab_server_ctx, good) == 1);
	CHECK(SSL_CTX_use_PrivateKey(lab_server_ctx, key) == 1);
	SSL_CTX_set_verify(lab_client_ctx, SSL_VERIFY_PEER, NULL);
	X509_STORE_add_cert(SSL_CTX_get_cert_store(lab_client_ctx), good);
	X509_STORE_add_cert(SSL_CTX_get_cert_store(lab_client_ctx), lab_expired);
}

void
lab_tls_down(void)
{
	SSL_CTX_free(lab_server_ctx);
	SSL_CTX_free(lab_client_ctx);
	X509_free(good);
	X509_free(lab_expired);
	EVP_PKEY_free(key);
}

/* So that no test has memory left at its end, which would be searched for leaks: the C
 * library keeps its time zones, and OpenSSL what it will not need again. */
__attribute__((constructor)) static void
know_time_zones(void)
{
	tzset();
}

void
lab_tls_over(void)
{
	lab_tls_down();
	OPENSSL_cleanup();
}

SSL *
lab_server(void)
{
	SSL *ssl = SSL_new(lab_server_ctx);

	CHECK(ssl != NULL);
	SSL_set_accept_state(ssl);
	return ssl;
}

SSL *
lab_client(const char *name)
{
	SSL *ssl = SSL_new(lab_client_ctx);

	CHECK(ssl != NULL);
	SSL_set1_host(ssl, name);
	SSL_set_connect_state(ssl);
	return ssl;
}

/* ---- a side: sends and receives a known pattern, in its own manner ---- */

uint32_t
lab_draw(uint32_t *state, size_t below)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % (uint32_t)below;
}

unsigned char
lab_byte(size_t offset)
{
	return (unsigned char)(offset * 13 + (offset >> 10));
}

static bool
side_closes(struct side *s, char kind)
{
	struct scene *scene = s->scene;

	if (s->closes_in != kind)
		return false;
	for (size_t i = 0; i < scene->n; i++)
		if (scene->sides[i] == s)
			scene->sides[i] = NULL;
	loop_cancel_timer(scene->loop, &s->again);
	conn_close(&s->conn, kind != 'r');
	free(s);
	loop_quit(scene->loop);
	return true;
}

static void
side_check_over(struct side *s)
{
	if (!s->is_open || (s->broken == 0 && s->read_error == 0 &&
	                    !(s->heard_end && s->sent == s->to_send)))
		return;
	s->is_open = false;
	if (--s->scene->left == 0)
		loop_quit(s->scene->loop);
}

void
side_push(struct side *s)
{
	unsigned char piece[30000];
	size_t n;
	int r;

	if (s->corks)
		conn_cork(&s->conn);
	while (s->sent < s->to_send && !conn_is_full(&s->conn)) {
		n = 1 + lab_draw(&s->state, lab_draw(&s->state, 3) == 0 ? 20 : sizeof(piece));
		n = n < s->to_send - s->sent ? n : s->to_send - s->sent;
		for (size_t i = 0; i < n; i++)
			piece[i] = lab_byte(s->sent + i);
		r = conn_write(&s->conn, piece, n);
		CHECK_OK(r);
		s->sent += n;
	}
	if (s->sent == s->to_send && s->shuts)
		conn_shut(&s->conn);
	if (s->corks)
		conn_uncork(&s->conn);
	side_check_over(s);
}

static void
side_ready(void *arg)
{
	struct side *s = arg;

	s->readies++;
	if (side_closes(s, 'h'))
		return;
	CHECK(s->conn.ssl != NULL);
	side_push(s);
}

static void
side_go_on(void *arg)
{
	struct side *s = arg;

	conn_resume_reading(&s->conn);
}

static void
side_readable(void *arg)
{
	struct side *s = arg;
	unsigned char piece[20000];
	ssize_t n;

	if (side_closes(s, 'r'))
		return;
	CHECK(s->conn.reading && !s->heard_end);
	for (;;) {
		if (s->stopped || (s->pauses && lab_draw(&s->state, 3) == 0)) {
			conn_pause_reading(&s->conn);
			if (!s->stopped)
				loop_set_timer(s->scene->loop, &s->again, lab_draw(&s->state, 2));
			return;
		}
		n = conn_read(&s->conn, piece, s->read_max == 0 ? sizeof(piece) : s->read_max);
		if (n == -EAGAIN)
			return;
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			CHECK(piece[i] == lab_byte(s->got + (size_t)i));
		s->got += (size_t)n;
	}
	s->heard_end = n == 0;
	s->read_error = (int)n;
	side_check_over(s);
}

static void
side_writable(void *arg)
{
	struct side *s = arg;

	s->writables++;
	if (side_closes(s, 'w'))
		return;
	CHECK(!conn_is_full(&s->conn));
	side_push(s);
}

static void
side_broken(void *arg, const struct err *error)
{
	struct side *s = arg;

	CHECK(error->code > 0 && error->text[0] != '\0');
	if (side_closes(s, 'b'))
		return;
	CHECK(s->broken == 0);
	s->broken = error->code;
	snprintf(s->text, sizeof(s->text), "%s", error->text);
	side_check_over(s);
}

static void
side_shut(void *arg)
{
	struct side *s = arg;

	s->shut_told++;
}

const struct conn_handler side_handler = { side_ready, side_readable, side_writable, side_shut,
                                           side_broken };

struct side *
side_new(struct scene *scene, uint32_t seed)
{
	struct side *s = calloc(1, sizeof(*s));

	CHECK(s != NULL && scene->n < ARRAY_LEN(scene->sides));
	s->scene = scene;
	s->state = seed;
	s->is_open = s->shuts = true;
	s->again = (struct loop_timer){ .due = side_go_on, .arg = s };
	scene->sides[scene->n++] = s;
	scene->left++;
	return s;
}

void
side_start(struct side *s, int fd, SSL *ssl)
{
	conn_init(&s->conn, s->scene->loop, fd, ssl, &side_handler, s);
	if (ssl == NULL)
		side_push(s);
}

void
scene_up(struct scene *scene)
{
	*scene = (struct scene){0};
	CHECK_OK(loop_new(&scene->loop, NULL));
}

void
scene_down(struct scene *scene)
{
	for (size_t i = 0; i < scene->n; i++) {
		if (scene->sides[i] == NULL)
			continue;
		loop_cancel_timer(scene->loop, &scene->sides[i]->again);
		conn_close(&scene->sides[i]->conn, false);
		free(scene->sides[i]);
	}
	loop_free(scene->loop);
}

void
lab_pair(int ret_ends[2])
{
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_ends));
}

void
lab_tcp_pair(int ret_ends[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
	                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);
	OWN(closep) int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_OK(bind(listener, (struct sockaddr *)&address, sizeof(address)));
	CHECK_OK(listen(listener, 1));
	CHECK_OK(getsockname(listener, (struct sockaddr *)&address, &len));
	ret_ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_OK(connect(ret_ends[0], (struct sockaddr *)&address, sizeof(address)));
	ret_ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK_OK(ret_ends[1]);
}

struct moment {
	struct scene *scene;
	struct loop_timer timer;
	size_t sum;
	int quiet;
};

static void
moment_over(void *arg)
{
	struct moment *m = arg;
	size_t sum = 0;

	for (size_t i = 0; i < m->scene->n; i++) {
		const struct side *s = m->scene->sides[i];

		if (s != NULL)
			sum += s->sent + s->got + s->conn.out_at + (size_t)(s->readies + s->writables);
	}
	m->quiet = sum == m->sum ? m->quiet + 1 : 0;
	m->sum = sum;
	if (m->quiet == 4)
		loop_quit(m->scene->loop);
	else
		loop_set_timer(m->scene->loop, &m->timer, 3);
}

void
scene_run(struct scene *scene)
{
	struct moment m = { .scene = scene, .timer = { .due = moment_over, .arg = &m } };

	moment_over(&m);
	CHECK_OK(loop_run(scene->loop, NULL));
	loop_cancel_timer(scene->loop, &m.timer);
}

void
scene_talking(struct scene *scene, struct side *ret_sides[2], const int ends[2], bool tls)
{
	for (int i = 0; i < 2; i++) {
		ret_sides[i] = side_new(scene, 3);
		ret_sides[i]->shuts = false;
	}
	side_start(ret_sides[0], ends[0], tls ? lab_client(LAB_NAME) : NULL);
	side_start(ret_sides[1], ends[1], tls ? lab_server() : NULL);
	scene_run(scene);
	CHECK(ret_sides[0]->readies == tls && ret_sides[1]->readies == tls);
}

void
side_fill(struct side *s)
{
	unsigned char piece[1000];
	int r = 0;

	while (r == 0) {
		for (size_t i = 0; i < sizeof(piece); i++)
			piece[i] = lab_byte(s->sent + i);
		r = conn_write(&s->conn, piece, sizeof(piece));
		if (r == 0)
			s->sent += sizeof(piece);
	}
	CHECK(r == -ENOBUFS);
	s->to_send = s->sent;
}
