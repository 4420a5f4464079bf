/* vm_qmp.c - QEMU's control socket, as the keeper of a machine uses it.
 *
 * Each command and each answer is one line of JSON.  QEMU writes its answers itself, and no guest of a
 * cell has run when they are read: so a line is searched for its few known words, not parsed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm_guest.h"
#include "boundary/microvm/vm_qmp.h"

#define WHY_MAX 160

/* The next line, without its end, in LINE; -EPIPE at the end of the stream. */
static int
next_line(struct vm_control *c, char line[sizeof(c->text)], struct err *err)
{
	char *end;

	while ((end = memchr(c->text, '\n', c->len)) == NULL)
		if (vm_control_read(c, err) < 0)
			return -EPIPE;
	memcpy(line, c->text, (size_t)(end - c->text));
	line[end - c->text] = '\0';
	c->len -= (size_t)(end + 1 - c->text);
	memmove(c->text, end + 1, c->len);
	return 0;
}

static int
refused(const char *line, struct err *err)
{
	static const char label[] = "\"desc\": \"";
	const char *why = strstr(line, label);

	why = why == NULL ? line : why + sizeof(label) - 1;
	return err_set(err, EIO, "QEMU refused: %.*s", (int)strcspn(why, "\"") < WHY_MAX ? (int)strcspn(why, "\"") : WHY_MAX,
	               why);
}

static int
await_answer(struct vm_control *c, struct err *err)
{
	char line[sizeof(c->text)];
	int r;

	while ((r = next_line(c, line, err)) == 0) {
		if (strncmp(line, "{\"error\"", 8) == 0)
			return refused(line, err);
		if (strncmp(line, "{\"return\"", 9) == 0)
			return 0;
	}
	return r;
}

/* Sends one command, with the descriptor FD unless that is -1, and waits for its answer. */
__attribute__((format(printf, 4, 5))) static int
ask(struct vm_control *c, int fd, struct err *err, const char *format, ...)
{
	OWN(freep) char *text = NULL;
	va_list ap;
	int len, r;

	va_start(ap, format);
	len = vasprintf(&text, format, ap);
	va_end(ap);
	if (len < 0)
		return err_set(err, ENOMEM, "out of memory");
	r = vm_control_send(c, text, (size_t)len, fd, err);
	return r < 0 ? r : await_answer(c, err);
}

/* Waits until the machine's state was written or read. */
static int
await_state(struct vm_control *c, struct err *err)
{
	char line[sizeof(c->text)];
	int r;

	while ((r = next_line(c, line, err)) == 0) {
		if (strstr(line, "\"MIGRATION\"") == NULL)
			continue;
		if (strstr(line, "\"completed\"") != NULL)
			return 0;
		if (strstr(line, "\"failed\"") != NULL)
			return err_set(err, EIO, "QEMU could not use the template");
	}
	return r;
}

int
qmp_begin(struct vm_control *c, struct err *err)
{
	int r = ask(c, -1, err, "{\"execute\":\"qmp_capabilities\"}\n");

	/* The memory is in a file of its own. */
	return r < 0 ? r : ask(c, -1, err, "{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":["
	                       "{\"capability\":\"x-ignore-shared\",\"state\":true},"
	                       "{\"capability\":\"events\",\"state\":true}]}}\n");
}

int
qmp_pause(struct vm_control *c, struct err *err)
{
	return ask(c, -1, err, "{\"execute\":\"stop\"}\n");
}

int
qmp_snapshot(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	int r = ask(c, m->state, err, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"state\"}}\n");

	if (r == 0)
		r = ask(c, -1, err, "{\"execute\":\"migrate\",\"arguments\":{\"uri\":\"fd:state\"}}\n");
	return r < 0 ? r : await_state(c, err);
}

int
qmp_restore(struct vm_control *c, const struct vm_machine *m, struct err *err)
{
	int r = ask(c, -1, err, "{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:%d\"}}\n", m->state);

	return r < 0 ? r : await_state(c, err);
}

static int
offer_share(struct vm_control *c, int share, struct err *err)
{
	int r = ask(c, share, err, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"share\"}}\n");

	return r < 0 ? r : ask(c, -1, err, "{\"execute\":\"chardev-add\",\"arguments\":{\"id\":\"share\",\"backend\":{"
	                       "\"type\":\"socket\",\"data\":{\"server\":false,\"addr\":{\"type\":\"fd\",\"data\":{"
	                       "\"str\":\"share\"}}}}}}\n");
}

int
qmp_plug(struct vm_control *c, const struct vm_machine *m, bool offered, struct err *err)
{
	int r = offered ? offer_share(c, m->share, err) : 0;

	if (r == 0 && m->has_share)
		r = ask(c, -1, err, "{\"execute\":\"device_add\",\"arguments\":{\"driver\":\"vhost-user-fs-pci\","
		        "\"chardev\":\"share\",\"tag\":\"" VM_GUEST_SHARE "\",\"bus\":\"" QEMU_SHARE_SLOT "\"}}\n");
	return r < 0 || !m->has_disk ? r :
	       ask(c, -1, err, "{\"execute\":\"device_add\",\"arguments\":{\"driver\":\"virtio-blk-pci\",\"drive\":"
	           "\"" QEMU_DISK "\",\"bus\":\"" QEMU_DISK_SLOT "\"}}\n");
}

int
qmp_resume(struct vm_control *c, struct err *err)
{
	return ask(c, -1, err, "{\"execute\":\"cont\"}\n");
}

void
qmp_end(struct vm_control *c)
{
	(void)ask(c, -1, NULL, "{\"execute\":\"quit\"}\n");
}
