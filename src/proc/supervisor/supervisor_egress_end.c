/* supervisor_egress_end.c - stops the egress processes of a cell, and notes that they are over. */
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/own.h"
#include "proc/supervisor/supervisor.h"

#define LAST_WORDS_MS 500               /* for events that the courier has yet to send */
#define LAST_WORDS_KILLED_MS 250        /* the same in an emergency: two periods of a CPU quota */

void
supervisor_egress_listen(struct supervisor *sv, bool on)
{
	for (size_t i = 0; i < BOUNDARY_SOCKETS; i++)
		if (sv->egress.listeners[i].fd >= 0)
			(void)loop_watch(sv->loop, &sv->egress.listeners[i], on ? EPOLLIN : 0, NULL);
	if (sv->egress.webhooks.fd >= 0)
		(void)loop_watch(sv->loop, &sv->egress.webhooks, on ? EPOLLIN : 0, NULL);
}

/* The helper's own end follows, and the starter reports it.  If not, the timer kills it. */
void
supervisor_egress_hung_up(struct supervisor *sv, struct loop_source *channel)
{
	loop_unwatch(sv->loop, channel);
	loop_set_timer(sv->loop, &sv->egress.patience, LAST_WORDS_MS);
}

void
supervisor_egress_stop(struct supervisor *sv)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, STARTER_STOP);
	if (sv->egress.running)
		(void)ipc_send(sv->egress.starter_channel.fd, &message, NULL, 0, NULL);
}

void
supervisor_egress_finish(struct supervisor *sv)
{
	struct egress *e = &sv->egress;

	if (!sv->spec.has_policy || e->finishing)
		return;
	e->finishing = true;
	supervisor_egress_listen(sv, false);
	loop_cancel_timer(sv->loop, &e->again);
	if (!e->running) {
		e->over = true;
		return;
	}
	shutdown(e->courier.fd, SHUT_WR);
	loop_set_timer(sv->loop, &e->patience,
	               sv->killed_by == KILLED_NOT ? LAST_WORDS_MS : LAST_WORDS_KILLED_MS);
}

bool
supervisor_egress_is_over(const struct supervisor *sv)
{
	return !sv->spec.has_policy || sv->egress.over;
}
