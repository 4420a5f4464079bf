/* git_push.c - reads the commands of a push, and judges them by its pack. */
#include "inspect/git.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/own.h"

enum state { IN_COMMANDS, IN_CERT, IN_OPTIONS, IN_PACK, IN_NOTHING };

struct git_reading {
	enum state state;
	bool secrets;
	bool options;                   /* were announced */
	size_t n_id;                    /* bytes of an id; 0 until one was seen */
	unsigned char line[GIT_LINE_MAX];       /* with its length */
	size_t n_line;
	struct buf cert;
	struct git_commits *commits;
	struct git_pack *pack;
	bool walked;                    /* the commits were walked */
};

int
git_push_new(bool secrets, struct git_push **ret_push)
{
	struct git_push *p = calloc(1, sizeof(*p));
	struct git_reading *r = calloc(1, sizeof(*r));

	if (p == NULL || r == NULL) {
		free(p);
		free(r);
		return -ENOMEM;
	}
	r->secrets = secrets;
	buf_init(&r->cert, GIT_CERT_MAX);
	p->reading = r;
	*ret_push = p;
	return 0;
}

void
git_push_free(struct git_push *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->n_commands; i++)
		free(p->commands[i].ref);
	buf_free(&p->reading->cert);
	git_pack_free(p->reading->pack);
	git_commits_free(p->reading->commits);
	free(p->reading);
	free(p);
}

/* ---- commands ---- */

/* Decode the hex digits at the beginning of TEXT into ID.  Returns their number. */
static size_t
read_id(const char *text, size_t len, unsigned char id[GIT_ID_MAX])
{
	size_t n = 0;

	memset(id, 0, GIT_ID_MAX);
	while (n < len && n < 2 * GIT_ID_MAX && git_id_digit((unsigned char)text[n]) >= 0) {
		id[n / 2] = (unsigned char)(id[n / 2] << 4 | git_id_digit((unsigned char)text[n]));
		n++;
	}
	return n;
}

static bool
is_zero(const unsigned char id[GIT_ID_MAX])
{
	static const unsigned char zero[GIT_ID_MAX];

	return memcmp(id, zero, GIT_ID_MAX) == 0;
}

static bool
is_ref(const char *ref, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)ref[i] <= ' ' || ref[i] == 127)
			return false;
	return len > 0 && len <= GIT_REF_MAX;
}

/* "OLD NEW REF". */
static int
add_command(struct git_push *p, const char *text, size_t len)
{
	struct git_command c = {0};
	size_t n = read_id(text, len, c.old);

	if (p->reading->n_id == 0 && (n == 40 || n == 64))
		p->reading->n_id = n / 2;
	if (n == 0 || n != 2 * p->reading->n_id || len < 2 * n + 3 || text[n] != ' ' ||
	    read_id(text + n + 1, len - n - 1, c.new) != n || text[2 * n + 1] != ' ')
		return -EBADMSG;
	text += 2 * n + 2;
	len -= 2 * n + 2;
	if (!is_ref(text, len) || (is_zero(c.old) && is_zero(c.new)) ||
	    p->n_commands == GIT_COMMANDS_MAX)
		return -EBADMSG;
	c.kind = is_zero(c.new) ? GIT_DELETE : is_zero(c.old) ? GIT_CREATE : GIT_UPDATE;
	c.ref = strndup(text, len);
	if (c.ref == NULL)
		return -EBADMSG;
	p->commands[p->n_commands++] = c;
	return 0;
}

/* After the NUL of a line: words separated by a space.  Git itself accepts any blank, stops at a
 * NUL, and also knows the words with a value; others do not. */
static int
read_capabilities(struct git_push *p, const char *text, size_t len)
{
	static const char report[] = "report-status", band[] = "side-band-64k";

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < ' ')
			return -EBADMSG;
	while (len > 0) {
		const char *space = memchr(text, ' ', len);
		size_t n = space != NULL ? (size_t)(space - text) : len;

		if (n == 12 && memcmp(text, "push-options", 12) == 0)
			p->reading->options = true;
		else if ((n == sizeof(report) - 1 || n == sizeof(report) + 2) &&
		         memcmp(text, report, sizeof(report) - 1) == 0)
			p->wants_report = true; /* also for "-v2" */
		else if (n == sizeof(band) - 1 && memcmp(text, band, n) == 0)
			p->side_band = true;
		else if (n > 12 && memcmp(text, "push-options=", 13) == 0)
			return -EBADMSG;
		n += space != NULL;
		text += n;
		len -= n;
	}
	return 0;
}

static int
take_command_line(struct git_push *p, const char *text, size_t len)
{
	struct git_reading *r = p->reading;
	const char *nul = memchr(text, '\0', len);
	size_t n;

	if (len > 0 && text[len - 1] == '\n')
		len--;
	n = nul != NULL && nul < text + len ? (size_t)(nul - text) : len;
	if (n < len && read_capabilities(p, text + n + 1, len - n - 1) < 0)
		return -EBADMSG;
	if (n == 9 && memcmp(text, "push-cert", 9) == 0) {
		if (r->cert.len > 0)
			return -EBADMSG;
		r->state = IN_CERT;
		return 0;
	}
	if (n >= 8 && memcmp(text, "shallow ", 8) == 0)
		return 0;
	return add_command(p, text, n);
}

/* ---- signed pushes ---- */

/* The commands are between an empty line and the signature.  The server decides where the signature
 * begins, so a command after an apparent signature counts. */
static int
read_cert(struct git_push *p)
{
	const char *at = (const char *)p->reading->cert.data;
	const char *end = at + p->reading->cert.len;
	bool in_signature = false;

	at = p->reading->cert.len > 0 ? memmem(at, (size_t)(end - at), "\n\n", 2) : NULL;
	if (at == NULL)
		return -EBADMSG;
	for (at += 2; at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((stop != NULL ? stop : end) - at);

		in_signature = in_signature || (len >= 11 && memcmp(at, "-----BEGIN ", 11) == 0);
		if (add_command(p, at, len) < 0 && !in_signature)
			return -EBADMSG;
		at += len + 1;
	}
	return 0;
}

/* Joins lines again, however they were split. */
static int
take_cert_line(struct git_push *p, const char *text, size_t len)
{
	struct git_reading *r = p->reading;

	if (len == 14 && memcmp(text, "push-cert-end\n", 14) == 0) {
		r->state = IN_COMMANDS;
		return read_cert(p);
	}
	buf_put(&r->cert, text, len);
	return buf_failed(&r->cert) || memchr(text, '\0', len) != NULL ? -EBADMSG : 0;
}

/* ---- lines ---- */

static bool
wants_pack(const struct git_push *p)
{
	for (size_t i = 0; i < p->n_commands; i++)
		if (p->commands[i].kind != GIT_DELETE)
			return true;
	return false;
}

static int
begin_pack(struct git_push *p)
{
	struct git_reading *r = p->reading;

	p->has_commands = true;
	if (!wants_pack(p)) {
		r->state = IN_NOTHING;
		p->is_over = true;
		return 0;
	}
	r->state = IN_PACK;
	r->commits = git_commits_new(r->n_id);
	if (r->commits != NULL)
		r->pack = git_pack_new(r->commits, r->n_id, r->secrets);
	return r->pack != NULL ? 0 : -ENOMEM;
}

static int
take_flush(struct git_push *p)
{
	struct git_reading *r = p->reading;

	switch (r->state) {
	case IN_COMMANDS:
		if (!r->options)
			return begin_pack(p);
		r->state = IN_OPTIONS;
		return 0;
	case IN_OPTIONS:
		return begin_pack(p);
	default:
		return -EBADMSG;
	}
}

static int
take_line(struct git_push *p, const char *text, size_t len)
{
	switch (p->reading->state) {
	case IN_COMMANDS:
		return take_command_line(p, text, len);
	case IN_CERT:
		return take_cert_line(p, text, len);
	case IN_OPTIONS:
		p->has_options = true;
		return 0;
	default:
		return -EBADMSG;
	}
}

/* The length in the first four bytes of a line.  0: a flush; -EBADMSG: invalid. */
static int
line_length(const unsigned char *line)
{
	int n = 0;

	for (size_t i = 0; i < 4; i++) {
		int digit = codec_hex_value((char)line[i]);

		if (digit < 0)
			return -EBADMSG;
		n = n << 4 | digit;
	}
	return n == 0 || (n > 4 && n <= GIT_LINE_MAX) ? n : -EBADMSG;
}

/* Take bytes of a line; *data is advanced. */
static int
take_line_bytes(struct git_push *p, const unsigned char **data, size_t *len)
{
	struct git_reading *r = p->reading;
	int want = r->n_line < 4 ? 4 : line_length(r->line);
	size_t n = (size_t)want - r->n_line;

	n = n < *len ? n : *len;
	memcpy(r->line + r->n_line, *data, n);
	r->n_line += n;
	*data += n;
	*len -= n;
	if (r->n_line < (size_t)want)
		return 0;
	if (want == 4) {
		want = line_length(r->line);
		if (want > 0)
			return 0;
		r->n_line = 0;
		return want < 0 ? want : take_flush(p);
	}
	r->n_line = 0;
	return take_line(p, (const char *)r->line + 4, (size_t)want - 4);
}

/* ---- the pack ---- */

/* Whether all updates were shown to be fast-forwards. */
static bool
walk(struct git_push *p)
{
	bool all = true;

	for (size_t i = 0; i < p->n_commands; i++) {
		struct git_command *c = &p->commands[i];

		if (c->kind == GIT_UPDATE && !c->descends)
			c->descends = git_commits_descends(p->reading->commits, c->new, c->old);
		all = all && (c->kind != GIT_UPDATE || c->descends);
	}
	p->reading->walked = true;
	return all;
}

/* A broken pack shows nothing; the commands still count. */
static void
take_pack(struct git_push *p, const unsigned char *data, size_t len)
{
	struct git_reading *r = p->reading;
	bool known = false;

	if (git_pack_feed(r->pack, data, len) < 0)
		p->pack_broken = true;
	if (!r->walked && git_pack_is_past_commits(r->pack))
		known = walk(p);
	p->secret = git_pack_secret(r->pack);
	if (p->pack_broken || git_pack_is_complete(r->pack)) {
		walk(p);
		p->is_over = true;
	} else if ((known && !r->secrets) || p->secret != NULL) {
		p->is_over = true;
	}
	if (p->is_over)
		r->state = IN_NOTHING;
}

int
git_push_feed(struct git_push *p, const unsigned char *data, size_t len)
{
	int r = 0;

	while (len > 0 && r == 0 && p->reading->state < IN_PACK)
		r = take_line_bytes(p, &data, &len);
	if (r == 0 && len > 0 && p->reading->state == IN_PACK)
		take_pack(p, data, len);
	return r;
}

int
git_push_finish(struct git_push *p)
{
	if (!p->has_commands)
		return -EBADMSG;
	if (p->reading->state == IN_PACK) {
		p->pack_broken = true;
		walk(p);
	}
	p->is_over = true;
	return 0;
}
