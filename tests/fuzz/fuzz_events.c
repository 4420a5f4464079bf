/* fuzz_events.c - what a courier says to the supervisor, which is all that it reads of it.
 *
 * Whatever comes, the timeline is whole lines of text that steers no terminal, each with a
 * number of its own; what breaks the rules ends the courier. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "proc/supervisor/supervisor.h"

static unsigned stops;

/* What is the supervisor's own is not there. */
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

static void
check_line(const char *line, size_t len, uint64_t n)
{
	char head[64];
	uint32_t code;
	size_t step;

	snprintf(head, sizeof(head), "{\"n\":%llu,\"time\":\"", (unsigned long long)n);
	assert(len > strlen(head) && memcmp(line, head, strlen(head)) == 0 && line[len - 1] == '}');
	for (; len > 0; line += step, len -= step) {
		step = utf8_next(line, len, &code);
		assert(step > 0 && !utf8_is_control(code));
	}
}

static void
check_timeline(const struct supervisor *sv)
{
	size_t size = (size_t)sv->events.size;
	OWN(freep) char *text = malloc(size + 1);
	uint64_t n = 0;

	assert(text != NULL && pread(sv->events.fd, text, size + 1, 0) == (ssize_t)size);
	for (char *at = text, *end; at < text + size; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + size - at));
		assert(end != NULL);
		check_line(at, (size_t)(end - at), ++n);
	}
	/* One that was refused in the middle of a message has its number, and no line. */
	assert(n <= sv->events.n && sv->events.n - n <= 1);
}

static void
hear(const uint8_t *data, size_t size, enum cell_exfiltration exfiltration)
{
	static struct supervisor sv;
	int ends[2], r;

	sv = (struct supervisor){ .state = -1, .spec.id = "abcd1234",
	                          .spec.exfiltration = exfiltration };
	stops = 0;
	assert(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	sv.egress.courier.fd = ends[0];
	sv.events.fd = memfd_create("timeline", MFD_CLOEXEC);
	assert(sv.events.fd >= 0);
	if (send(ends[1], data, size, MSG_DONTWAIT) == (ssize_t)size) {
		r = supervisor_hear_courier(&sv);
		assert((r == -EBADMSG) == (stops == 1));
		check_timeline(&sv);
	}
	close(ends[0]);
	close(ends[1]);
	close(sv.events.fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* An empty datagram is the end. */
	if (size == 0 || size > IPC_MESSAGE_MAX)
		return 0;
	hear(data, size, CELL_REFUSE);
	hear(data, size, CELL_FREEZE);
	return 0;
}
