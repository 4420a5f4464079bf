/* main.c - cloister-blobs: keeps a registry's blobs in S3.
 *
 *   cloister-blobs           answers the questions of ipc/blobs_channel.h on descriptor 3, until the other end is closed
 *   cloister-blobs --check   tries whether the place can be used, and prints one line
 *
 * CLOISTER_BLOBS names the place.  Variables, the key's file and certificates are read first.  Before the first byte goes
 * out, the process locks itself down: it reads the configuration of name servers and tokens that others renew, and
 * changes no file but those that it is given open. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "cell/cell_trust.h"
#include "confine/lockdown.h"
#include "ipc/blobs_channel.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "proc/blobs/blobs_proc.h"
#include "upstream/resolve.h"

/* ---- before the first byte ---- */

static int
read_place(struct blobs *b, struct err *err)
{
	const char *text = getenv(S3_VARIABLE);
	int r;

	if (text == NULL || *text == '\0')
		return err_set(err, EINVAL, "cloister-blobs is started by cloister only");
	r = s3_place_parse(text, environ, &b->place, err);
	if (r < 0)
		return r;
	b->place_text = str_format("s3://%s/%s", b->place.bucket, b->place.prefix);
	snprintf(b->host, sizeof(b->host), "%s%s%s", b->place.in_path ? "" : b->place.bucket, b->place.in_path ? "" : ".",
	         b->place.host);
	return b->place_text != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int
read_authorities(struct blobs *b, struct err *err)
{
	const char *own = getenv("AWS_CA_BUNDLE");
	struct buf pem = BUF(2 * BLOBS_CA_MAX);
	int r = cell_trust_add_host(&pem, own != NULL && *own != '\0' ? own : getenv("SSL_CERT_FILE"), BLOBS_CA_MAX, err);

	if (r == 0 && buf_failed(&pem))
		r = err_set(err, EFBIG, "there are too many certificates");
	b->pem = (char *)pem.data;
	b->pem_len = pem.len;
	return r;
}

static int
open_network(struct blobs *b, struct err *err)
{
	int r;

	if (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK || (b->multi = curl_multi_init()) == NULL ||
	    (b->easy = curl_easy_init()) == NULL)
		return err_set(err, ENOMEM, "cannot set up libcurl");
	proxies_load(&b->proxies, environ);
	r = loop_new(&b->loop, err);
	r = r == 0 ? resolver_new(&b->resolver, err) : r;
	if (r == 0)
		resolver_start(b->resolver, b->loop);
	return r;
}

static int
lock_down(const struct blobs *b, struct err *err)
{
	OWN(freep) char *folder = aws_keys_folder(&b->keys);
	const char *const readable[] = { "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf", folder, NULL };

	/* All descriptors that are open now are our own. */
	return lockdown_enter(&(struct lockdown){ .filter = FILTER_BLOBS, .network = true, .readable = readable }, INT_MAX, err);
}

static int
begin(struct blobs *b, struct err *err)
{
	int r = read_place(b, err);

	b->keys.to = "S3";
	r = r == 0 ? aws_keys_find(&b->keys, err) : r;
	r = r == 0 ? read_authorities(b, err) : r;
	r = r == 0 ? open_network(b, err) : r;
	return r == 0 ? lock_down(b, err) : r;
}

/* ---- questions ---- */

static void
allow_time(struct blobs *b, uint64_t size)
{
	b->deadline = io_now_ms() + BLOBS_DEADLINE_MS + (int64_t)(size / BLOBS_BYTES_PER_MS);
}

static bool
take_hash(struct buf *body, unsigned char ret_hash[HASH_LEN])
{
	if (buf_left(body) < HASH_LEN)
		return false;
	memcpy(ret_hash, body->data + body->pos, HASH_LEN);
	body->pos += HASH_LEN;
	return true;
}

static void
put_page(struct buf *out, const struct s3_page *page, int64_t now)
{
	buf_put_u32(out, page->more);
	buf_put_u64(out, (uint64_t)now);
	buf_put_u32(out, (uint32_t)page->n);
	for (size_t i = 0; i < page->n; i++) {
		buf_put(out, page->at[i].hash, HASH_LEN);
		buf_put_u64(out, page->at[i].size);
		buf_put_u64(out, (uint64_t)page->at[i].modified);
	}
}

static int
answer_list(struct blobs *b, struct buf *body, struct buf *out, struct err *err)
{
	static struct s3_page page;
	unsigned char hash[HASH_LEN];
	uint32_t trash, goes_on;
	int64_t now = 0;
	int r;

	if (buf_get_u32(body, &trash) < 0 || buf_get_u32(body, &goes_on) < 0 || !take_hash(body, hash))
		return -EBADMSG;
	r = blobs_list(b, trash != 0, goes_on != 0 ? hash : NULL, &page, &now, err);
	if (r == 0)
		put_page(out, &page, now);
	return r;
}

/* -EBADMSG without an error: the question is malformed. */
static int
answer(struct blobs *b, struct ipc_message *m, struct buf *out, struct err *err)
{
	unsigned char hash[HASH_LEN];
	uint64_t size = 0;
	uint32_t flag = 0;
	int r;

	if (m->type == BLOBS_CHECK)
		return blobs_check(b, err);
	if (m->type == BLOBS_LIST)
		return answer_list(b, &m->body, out, err);
	if (!take_hash(&m->body, hash) || (m->type == BLOBS_PUT && buf_get_u64(&m->body, &size) < 0) ||
	    (m->type == BLOBS_PURGE && buf_get_u32(&m->body, &flag) < 0) ||
	    ((m->type == BLOBS_PUT || m->type == BLOBS_GET) && m->n_fds != 1))
		return -EBADMSG;
	switch (m->type) {
	case BLOBS_PUT:
		allow_time(b, size);
		return blobs_put(b, hash, size, m->fds[0], err);
	case BLOBS_GET:
		allow_time(b, UINT64_C(1) << 30);
		r = blobs_get(b, hash, m->fds[0], &size, err);
		break;
	case BLOBS_TOUCH:
		r = blobs_touch(b, hash, &size, err);
		break;
	case BLOBS_REMOVE:
		r = blobs_remove(b, hash, &size, err);
		break;
	case BLOBS_OWN:
		return blobs_own(b, hash, err);
	case BLOBS_PURGE:
		return blobs_purge(b, hash, flag != 0, err);
	default:
		return -EBADMSG;
	}
	buf_put_u64(out, size);
	return r;
}

static int
send_failure(const struct blobs *b, const struct err *why)
{
	OWN(buf_free) struct buf out;

	ipc_begin(&out, BLOBS_FAILED);
	buf_put_u32(&out, (uint32_t)(why->code != 0 ? why->code : EIO));
	buf_put_str(&out, why->text);
	return ipc_send(b->channel, &out, NULL, 0, NULL);
}

/* Until the other end is closed, or sends what it may not. */
static int
serve(struct blobs *b)
{
	int r = 0;

	while (r == 0) {
		OWN(ipc_message_free) struct ipc_message m = {0};
		OWN(buf_free) struct buf out = {0};
		struct err err = {0};

		if (ipc_receive(b->channel, &m, NULL) < 0)
			return 0;
		ipc_begin(&out, BLOBS_DONE);
		allow_time(b, 0);
		r = answer(b, &m, &out, &err);
		if (r == -EBADMSG && err.code == 0)
			return r;
		r = r < 0 ? send_failure(b, &err) : ipc_send(b->channel, &out, NULL, 0, NULL);
	}
	return r;
}

int
main(int argc, char **argv)
{
	static struct blobs b;
	struct err err = {0};
	bool checks = argc == 2 && strcmp(argv[1], "--check") == 0;
	int r;

	if (argc > 2 || (argc == 2 && !checks)) {
		(void)err_set(&err, EINVAL, "cloister-blobs is started by cloister only");
		return tell_error(&err);
	}
	signal(SIGPIPE, SIG_IGN);
	b.channel = checks ? -1 : BLOBS_CHANNEL_FD;
	r = begin(&b, &err);
	if (r < 0 && checks)
		return tell_error(&err);
	/* The first question is answered with the reason. */
	if (r < 0) {
		OWN(ipc_message_free) struct ipc_message m = {0};

		if (ipc_receive(b.channel, &m, NULL) < 0)
			return tell_error(&err);
		(void)send_failure(&b, &err);
		return TELL_FAILED;
	}
	if (!checks) {
		r = serve(&b);
	} else {
		allow_time(&b, 0);
		r = blobs_check(&b, &err);
		if (r == 0)
			printf("%s at %s\n", b.place_text, b.host);
	}
	aws_keys_wipe(&b.keys);
	return r < 0 && checks ? tell_error(&err) : r < 0 ? TELL_FAILED : 0;
}
