/* api_attach.c - the terminal of a detached cell's agent: its stream, and requests that type and resize.
 *
 * The client that hangs up has left the terminal; the agent goes on.  The bytes are the agent's: they are passed on as
 * they are. */
#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cell/cell_screen.h"
#include "proc/serve/exec_stream.h"
#include "proc/serve/sandbox.h"

/* C->text is the screen as it is. */
static int
take_seat(struct api_call *c, const char *cell)
{
	OWN(buf_free) struct buf before = CELL_SCREEN_BUF;
	const unsigned rows = (unsigned)json_integer_value(api_body_get(c, "rows"));
	const unsigned columns = (unsigned)json_integer_value(api_body_get(c, "columns"));
	int r = inside_attach(cell, &(struct inside_order){ .by = c->q->who, .rows = rows, .columns = columns }, &c->inside,
	                      &before, &c->err);

	if (r < 0)
		return r == -ENOENT || r == -ESRCH ? api_fail_as(c, 409, "over") : r == -ENOTTY ?
		       api_fail_as(c, 409, "no_terminal") : api_fail(c);
	c->text_len = before.len;
	c->text = (char *)TAKE(before.data);
	return 0;
}

int
api_sandbox_attach(struct api_call *c)
{
	char cell[CELL_ID_LEN + 1];

	return api_exec_read_size(c) < 0 || sandbox_find(c, cell) < 0 ? -EIO : take_seat(c, cell);
}

int
api_cell_use(struct api_call *c)
{
	struct cell_entry entry;
	OWN(closep) int runtime = api_find_running(c, &entry);

	return runtime < 0 ? -EIO : 0;
}

int
api_cell_attach(struct api_call *c)
{
	return api_exec_read_size(c) < 0 || api_cell_use(c) < 0 ? -EIO : take_seat(c, c->id);
}

int
api_sandbox_attach_resize(struct api_call *c)
{
	return api_exec_read_size(c) < 0 ? -EIO : api_sandbox_use(c);
}

int
api_cell_attach_resize(struct api_call *c)
{
	return api_exec_read_size(c) < 0 ? -EIO : api_cell_use(c);
}

static enum exec_kind
kind_of(const struct api_call *c)
{
	return c->route->work == api_cell_attach || c->route->work == api_cell_use ||
	       c->route->work == api_cell_attach_resize ? EXEC_CELL_TERMINAL : EXEC_SANDBOX_TERMINAL;
}

void
api_attach_begin(struct api_call *c)
{
	struct exec_stream *e = exec_stream_new(c, kind_of(c));

	if (e != NULL)
		exec_stream_start(e);
}

void
api_attach_input_begin(struct api_call *c)
{
	struct exec_stream *e = exec_stream_find(c, kind_of(c));

	if (e != NULL)
		exec_stream_feed(e, c, false);
}

void
api_attach_resize_begin(struct api_call *c)
{
	api_exec_resize(c, kind_of(c));
}
