/* fuzz_events.c - what a courier says to the supervisor, which is all that it reads of it.
 *
 * Whatever comes, the timeline is whole lines of text that steers no terminal, each with a
 * number of its own, chained to the one before; what breaks the rules ends the courier. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "proc/supervisor/supervisor.h"

static unsigned stops;
static int folder = -1;

static char name[AUDIT_NAME_MAX];

static void
open_folder(void)
{
	folder = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(name, sizeof(name), "fuzz-events-%d", (int)getpid());
	assert(folder >= 0);
}

/* What is the supervisor's own is not there. */
void
supervisor_print(const char *text, size_t len)
{
	(void)text, (void)len;
}

void
supervisor_say(const struct supervisor *sv, const char *fmt, ...)
{
	(void)sv;
	(void)fmt;
}

void
supervisor_egress_hung_up(struct supervisor *sv, struct loop_source *channel)
{
	(void)sv;
	(void)channel;
}

void
supervisor_egress_stop(struct supervisor *sv)
{
	(void)sv;
	stops++;
}

/* Only where the policy has a use for it. */
void
supervisor_alarm(struct supervisor *sv)
{
	assert(sv->spec.exfiltration != CELL_REFUSE);
}

void
supervisor_notify_own(struct supervisor *sv, const char *event, const struct buf *data)
{
	(void)sv;
	(void)event;
	(void)data;
}

void
supervisor_notify_end(struct supervisor *sv)
{
	(void)sv;
}

int
supervisor_reached(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

int
supervisor_asked(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

int
supervisor_withdrawn(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

int
supervisor_steered(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

int
supervisor_secrets_used(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

int
supervisor_take_fired(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

int
supervisor_take_tripped(struct supervisor *sv, struct ipc_message *message)
{
	(void)sv;
	(void)message;
	return -EBADMSG;
}

void
supervisor_witness_catch_up(struct supervisor *sv)
{
	(void)sv;
}

uint32_t
supervisor_witness_process(const struct supervisor *sv, uint64_t port)
{
	(void)sv;
	return port % 2 == 0 ? 7 : 0;
}

void
supervisor_witness_put_totals(const struct supervisor *sv, struct members *m)
{
	(void)sv;
	(void)m;
}

void
supervisor_resources_put_totals(const struct supervisor *sv, struct members *m)
{
	(void)sv;
	(void)m;
}

const char *
supervisor_policy_hash(struct supervisor *sv)
{
	(void)sv;
	return "";
}

/* Every line is a record that follows on the one before, and none pretends to be the
 * supervisor's own; how many there are. */
static uint64_t
check_timeline(struct supervisor *sv)
{
	static const char *const own[] = { "checkpoint", "cell", "cell.boot", "cell.end", "setup.ran", "steer" };
	size_t size = (size_t)sv->timeline.log.size;
	OWN(freep) char *text = malloc(size + 1);
	struct audit_chain chain = {0};
	struct audit_record record;
	uint32_t code;
	size_t step;

	assert(text != NULL && pread(sv->timeline.log.fd, text, size + 1, 0) == (ssize_t)size);
	for (char *at = text, *end; at < text + size; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + size - at));
		assert(end != NULL && audit_record_read(at, (size_t)(end - at), &record, NULL) == 0);
		assert(record.n == chain.tree.size + 1 && strcmp(record.timeline, "cell/abcd1234") == 0 &&
		       memcmp(record.prev, chain.head, AUDIT_HASH) == 0);
		for (size_t i = 0; i < ARRAY_LEN(own); i++) {
			OWN(freep) char *member = str_format("\"type\":\"%s\"", own[i]);

			assert(memmem(record.event.at, record.event.len, member, strlen(member)) == NULL);
		}
		for (const char *c = at; c < end; c += step) {
			step = utf8_next(c, (size_t)(end - c), &code);
			assert(step > 0 && !utf8_is_control(code));
		}
		audit_chain_add(&chain, at, (size_t)(end - at));
	}
	return chain.tree.size;
}

/* The same once more, from a courier that went while there was no room: the numbers in it mean
 * nothing to the next one. */
static void
hear_later(struct supervisor *sv, const uint8_t *data, size_t size)
{
	struct timeline *t = &sv->timeline;
	uint64_t before = t->log.size;
	uint32_t type;

	buf_init(&t->held, size);
	buf_put(&t->held, data, size);
	assert(buf_get_u32(&t->held, &type) == 0);
	t->holds = t->has_policy = true;
	supervisor_timeline_egress(sv);
	supervisor_hear_held(sv);
	assert(!t->holds && t->log.size > before && t->awaited == 0);
}

static void
hear(const uint8_t *data, size_t size, enum cell_exfiltration exfiltration, bool strict)
{
	static struct supervisor sv;
	struct err err;
	int ends[2], r;

	sv = (struct supervisor){ .state = -1, .spec = { .id = "abcd1234", .exfiltration = exfiltration,
	                          .audit_strict = strict, .audit_max = CELL_AUDIT_MAX } };
	stops = 0;
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	sv.egress.courier.fd = ends[0];
	assert(loop_new(&sv.loop, NULL) == 0);
	assert(audit_log_open(&sv.timeline.log, folder, name, "cell/abcd1234", NULL,
	                      SUPERVISOR_EVENTS_MAX, &err) == 0);
	buf_init(&sv.timeline.event, AUDIT_EVENT_MAX);
	if (send(ends[1], data, size, MSG_DONTWAIT) == (ssize_t)size) {
		r = supervisor_hear_courier(&sv);
		assert((r == -EBADMSG) == (stops == 1));
		/* There is room for all that a courier may say. */
		assert(!sv.timeline.holds);
		/* All of a message, or nothing. */
		assert((check_timeline(&sv) > 0) == (r == 0 && sv.timeline.log.size > 0));
		if (sv.timeline.log.size > 0)
			hear_later(&sv, data, size);
	}
	close(ends[0]);
	close(ends[1]);
	audit_log_close(&sv.timeline.log);
	buf_free(&sv.timeline.event);
	loop_free(sv.loop);
	assert(unlinkat(folder, name, 0) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* An empty datagram is the end. */
	if (size == 0 || size > IPC_MESSAGE_MAX)
		return 0;
	if (folder < 0)
		open_folder();
	hear(data, size, CELL_REFUSE, false);
	hear(data, size, CELL_FREEZE, true);
	return 0;
}
