/* policy_trust.c - whether a person has accepted a project's cloister.yaml, with all files that it names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/hash.h"
#include "cli/accepted.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "policy/policy_flat.h"
#include "policy/policy_source.h"

/* A policy is never taken for a profile of the same bytes. */
static void
hash_text(const struct buf *text, char ret_hash[HASH_NAME + 1])
{
	unsigned char sum[HASH_LEN];
	struct hash h;

	hash_begin(&h);
	hash_add(&h, POLICY_CLI_FILE "\n", sizeof(POLICY_CLI_FILE));
	hash_add(&h, text->data, text->len);
	hash_end(&h, sum);
	hash_name(sum, ret_hash);
}

int
policy_cli_read(int folder, struct buf *ret_text, bool *ret_is_accepted, struct err *err)
{
	char hash[HASH_NAME + 1];
	int r = policy_source_load(folder, POLICY_CLI_FILE, NULL, ret_text, err);

	r = r < 0 ? r : policy_cli_put_bound(folder, ret_text, err);
	if (r < 0)
		return r;
	hash_text(ret_text, hash);
	*ret_is_accepted = accepted_has(hash);
	return 0;
}

int
policy_cli_accept(const struct buf *text, struct err *err)
{
	char hash[HASH_NAME + 1];

	hash_text(text, hash);
	return accepted_add(hash, POLICY_CLI_FILE, "policy.trusted", "policy", err);
}

void
policy_cli_print_text(FILE *out, const struct buf *text)
{
	text_print_safe(out, (const char *)text->data, text->len, true);
	if (text->len > 0 && text->data[text->len - 1] != '\n')
		fputc('\n', out);
}

int
policy_cli_trust(const struct policy_cli *cli, int argc, char **argv)
{
	OWN(buf_free) struct buf text = BUF(POLICY_FLAT_MAX);
	OWN(closep) int folder = -1;
	struct err err = {0};
	unsigned up;
	bool is_accepted;

	(void)cli, (void)argv;
	if (argc > 0)
		return cli_failf("`policy trust` takes no arguments: it is about the " POLICY_CLI_FILE " of this project");
	folder = policy_cli_find(".", POLICY_CLI_FILE, &up);
	if (folder < 0)
		return cli_failf("there is no " POLICY_CLI_FILE " here or above: see `cloister init`");
	if (policy_cli_read(folder, &text, &is_accepted, &err) < 0)
		return cli_fail(&err);
	policy_cli_print_text(stdout, &text);
	if (policy_cli_accept(&text, &err) < 0)
		return cli_fail(&err);
	fputs("cloister: accepted: `cloister run NAME` uses it here, until it changes\n", stderr);
	return 0;
}
