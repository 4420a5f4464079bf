/* resolve_line.c - addresses of a name for libcurl, which then asks nobody itself. */
#include <errno.h>

#include "base/buf.h"
#include "base/err.h"
#include "upstream/resolve.h"

struct lookup {
	struct loop *loop;
	struct buf *line;
	bool (*is_such)(const struct address *a);
	const char *problem;
	bool is_done, any;
};

static void
resolved(void *arg, const struct address *addresses, size_t n, const char *problem)
{
	struct lookup *l = arg;
	char text[ADDRESS_TEXT_MAX];

	l->is_done = true;
	l->problem = n == 0 ? problem : NULL;
	for (size_t i = 0; i < n; i++) {
		l->any = l->any || l->is_such(&addresses[i]);
		buf_put_text(l->line, i == 0 ? "" : ",");
		buf_put_text(l->line, address_format(&addresses[i], text));
	}
	loop_quit(l->loop);
}

int
resolver_line(struct resolver *r, struct loop *loop, const char *host, unsigned port, struct buf *line,
              bool (*is_such)(const struct address *a), bool *ret_any, struct err *err)
{
	struct lookup l = { .loop = loop, .line = line, .is_such = is_such };
	struct resolve_wait wait = { .done = resolved, .arg = &l };
	int done = 0;

	buf_put_text(line, host);
	buf_put_text(line, ":");
	buf_put_decimal(line, port);
	buf_put_text(line, ":");
	resolver_ask(r, host, &wait);
	while (done == 0 && !l.is_done)
		done = loop_run(loop, err);
	if (done < 0)
		return done;
	if (l.problem != NULL)
		return err_set(err, EHOSTUNREACH, "cannot find '%s': %s", host, l.problem);
	buf_put(line, "", 1);
	*ret_any = l.any;
	return buf_failed(line) ? err_set(err, ENOMEM, "out of memory") : 0;
}
