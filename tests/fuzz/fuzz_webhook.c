/* fuzz_webhook.c - what cloister-publish asks the courier about webhooks, and their signatures.
 *
 * Two bytes are the length of the question; what follows it is the body. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "egress/courier.h"
#include "fuzz.h"
#include "ipc/ipc.h"
#include "ipc/webhook_channel.h"
#include "sign/sign_schemes.h"

#define REAL "the real secret of the sender"
#define FAKE "a placeholder that is the cell's"

static const char definitions[] =
	"version: 1\n"
	"secrets:\n"
	"  a: {scheme: webhook, ports: [1], with: {template: github}}\n"
	"  b: {scheme: webhook, ports: [1, 2], paths: [/hook/**], with: {template: stripe}}\n"
	"  c: {scheme: webhook, ports: [3], with: {template: twilio, url: 'https://a.test:8443/x'}}\n"
	"  d: {scheme: webhook, ports: [1-4], methods: [POST], with: {template: slack}}\n";

static struct courier courier;
static int supervisor[2];

static void
add_secrets(void)
{
	OWN(secret_list_free) struct secret_list list = {0};
	OWN(closep) int fd = memfd_create("bound", MFD_CLOEXEC);
	struct placeholder fake = { .field = { [SECRET_SECRET] = (char[]){ FAKE } } };
	struct secret_values real = {0};

	assert(fd >= 0);
	assert(guard_copy(&real.field[SECRET_SECRET], REAL, strlen(REAL), NULL) == 0);
	assert(secret_load_text("fuzz.yaml", definitions, strlen(definitions), &list, NULL) == 0);
	for (size_t i = 0; i < list.n; i++)
		assert(bound_write(fd, list.at[i], &fake, &real, NULL) == 0);
	assert(secrets_open(&courier.secrets, fd, NULL) == 0);
	assert(webhooks_prepare(&courier, NULL) == 0);
	secret_values_free(&real);
}

static void
set_up(void)
{
	static const char text[] = "version: 1\negress: []\n";
	struct policy *policy = NULL;
	struct policy_limits limits;
	static struct loop *loop;

	if (loop != NULL)
		return;
	assert(loop_new(&loop, NULL) == 0);
	assert(policy_load_text("fuzz.yaml", text, strlen(text), &policy, &limits, NULL) == 0);
	assert(courier_init(&courier, policy, false, NULL, NULL, 0, NULL) == 0);
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, supervisor) == 0);
	courier.loop = loop;
	events_init(&courier.events, loop, supervisor[0]);
	add_secrets();
}

static int
body_file(const uint8_t *data, size_t len)
{
	int fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert(fd >= 0 && write_all(fd, data, len, NULL) == 0);
	assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
	return fd;
}

/* What passed is signed with the placeholder now: for one of the secrets, that is right. */
static void
check_passed(struct buf *answer, const uint8_t *body, size_t len)
{
	static struct http_head head, copy;
	static struct sign_memory m;
	struct sign_key fake = { .secret = { FAKE, strlen(FAKE) } };
	struct sign_key real = { .secret = { REAL, strlen(REAL) } };
	struct sign_body whole = { body, len };
	enum sign_next next;
	bool right = false;

	assert(http_head_decode(answer, &head, NULL) == 0 && buf_left(answer) == 0);
	for (size_t i = 0; i < courier.secrets.bound.n; i++) {
		copy = head;
		/* As the third of them has it said. */
		if (i == 2) {
			copy.scheme = HTTP_TLS;
			copy.host = (struct http_text){ "a.test", 6 };
			copy.port = 8443;
		}
		m.used = 0;
		right |= sign_hmac.sign(&courier.webhooks.templates[i], &fake, &real, NULL, &copy, &whole, &m,
		                        &next, &(struct sign_chunks *){ NULL }, NULL) == 0;
	}
	assert(right);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(ipc_message_free) struct ipc_message message = { .type = WEBHOOK_CHECK,
	                                                     .fds = { -1, -1, -1 } };
	OWN(buf_free) struct buf answer = {0};
	uint32_t type, number, status;
	const char *reason;
	char seen[4096];
	size_t n;

	if (size < 2 || (n = data[0] | (size_t)data[1] << 8) > size - 2)
		return 0;
	set_up();
	buf_init_borrowed(&message.body, data + 2, n);
	data += 2 + n;
	size -= 2 + n;
	if (size > 0) {
		message.fds[0] = body_file(data, size);
		message.n_fds = 1;
	}
	if (webhooks_check(&courier, &message, &answer) < 0)
		return 0;
	assert(buf_get_u32(&answer, &type) == 0 && type == WEBHOOK_CHECKED);
	assert(buf_get_u32(&answer, &number) == 0 && buf_get_u32(&answer, &status) == 0);
	if (status == 0)
		check_passed(&answer, data, size);
	else
		assert((status == 401 || status == 403) && buf_get_str(&answer, &reason) == 0 &&
		       strstr(reason, REAL) == NULL && strstr(reason, FAKE) == NULL);
	events_flush(&courier.events, true);
	while (recv(supervisor[1], seen, sizeof(seen), MSG_DONTWAIT) >= 0)
		assert(memmem(seen, sizeof(seen), REAL, strlen(REAL)) == NULL);
	return 0;
}
