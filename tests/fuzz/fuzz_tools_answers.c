/* fuzz_tools_answers.c - what servers, cells and authorization servers wrote: nothing of it reaches a person's terminal, and
 * an address that may not be used is not.
 *
 * The first byte chooses the reader. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "fuzz.h"
#include "tools/check.h"
#include "tools/oauth.h"

static const char lock_text[] = "version: 1\nservers: {it: {tools: {a: {sha256: x, annotations: {read_only: true}, "
                                "scope: {egress: [{allow: a.example, methods: [GET]}], write: [out]}}}}}\n";

static void
check_printable(const struct check_findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		for (const char *c = f->list[i].text; *c != '\0'; c++)
			assert((unsigned char)*c >= ' ' || *c == '\n' || *c == '\t');
}

/* A listing, compared with the lock and written as one: which can be read again. */
static void
list(const struct lock *lock, const char *text, size_t len)
{
	OWN(json_decrefp) json_t *tools = canon_value(text, len);
	OWN(check_free) struct check_findings f = {0};
	OWN(lock_free) struct lock again = {0};
	OWN(buf_free) struct buf b = BUF(LOCK_MAX), changes = BUF(LOCK_MAX);
	static struct listing l;
	const struct listing *all[] = { &l };

	l = (struct listing){ .server = "it", .path = "", .sha256 = "", .package = "" };
	if (tools != NULL && listing_add(&l, tools, NULL) == 0) {
		check_listings(&f, lock, all, 1);
		check_printable(&f);
		(void)lock_put_changes(&changes, lock, &l);
		if (lock_write(&b, lock, all, 1, NULL) == 0)
			assert(lock_read("", (const char *)b.data, b.len, &again, NULL) == 0);
		for (size_t i = 0; i < l.n; i++)
			json_decref(check_example(&l.tools[i]));
	}
	listing_free(&l);
}

static void
observe(const struct lock *lock, const char *text, size_t len)
{
	OWN(check_free) struct check_findings f = {0}, again = {0};
	OWN(buf_free) struct buf b = BUF(LOCK_MAX), scope = BUF(LOCK_MAX);
	const struct observation o = { .tool = lock_tool(lock, "it", "a"), .server = "it", .name = "a", .events = text,
	                               .n_events = len, .called = "", .folder = "/w", .home = "/h" };

	check_observation(&f, &o);
	check_printable(&f);
	check_put(&b, &f);
	assert(buf_failed(&b) || check_get(&b, &again, NULL) == 0);
	(void)check_put_scope(&scope, NULL, text, len, NULL);
}

static void
log_in(const char *text, size_t len)
{
	OWN(json_decrefp) json_t *document = canon_value(text, len);
	OWN(buf_free) struct buf code = BUF(8192);
	char query[4096];
	struct oauth o;

	assert(oauth_begin(&o, "https://mcp.example.com/mcp", NULL) == 0);
	snprintf(query, sizeof(query), "%.*s", (int)(len < 4000 ? len : 4000), text);
	oauth_take_challenge(&o, query);
	assert(o.metadata[0] == '\0' || strncmp(o.metadata, "https://", 8) == 0);
	memset(o.state, 's', OAUTH_VERIFIER_LEN);
	if (oauth_take_redirect(&o, query, &code, NULL) == 0)
		assert(strstr(query, "sssssss") != NULL || strchr(query, '%') != NULL);
	if (oauth_take_resource(&o, document, NULL) == 0)
		assert(strncmp(o.issuer, "https://", 8) == 0);
	snprintf(o.issuer, sizeof(o.issuer), "https://as.example.com");
	if (oauth_take_issuer(&o, document, NULL) == 0)
		assert(strncmp(o.authorize, "https://", 8) == 0 && strncmp(o.token, "https://", 8) == 0);
	json_decref(oauth_login(&o, document, NULL, 1, NULL));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN(lock_free) struct lock lock = {0};
	const char *text = (const char *)data + 1;

	if (size < 2)
		return 0;
	assert(lock_read("", lock_text, sizeof(lock_text) - 1, &lock, NULL) == 0);
	if (data[0] % 3 == 0)
		list(&lock, text, size - 1);
	else if (data[0] % 3 == 1)
		observe(&lock, text, size - 1);
	else
		log_in(text, size - 1);
	return 0;
}
