/* run_git.c - lets git in the cell use HTTPS for the SSH addresses of a host whose rules are for HTTPS. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/run.h"
#include "policy/policy.h"

#define FORMS 2                         /* of an SSH address */
#define ENTRIES (1 + 2 * FORMS * POLICY_GIT_HOSTS_MAX)

static int
add(char **entries, size_t *n, char *entry)
{
	entries[*n] = entry;
	*n += entry != NULL;
	return entry != NULL ? 0 : -ENOMEM;
}

/* Number AT: git then reads the text BEFORE at the start of an address as "https://HOST/". */
static int
add_rewrite(char **entries, size_t *n, size_t at, const char *host, const char *before)
{
	int r = add(entries, n, str_format("GIT_CONFIG_KEY_%zu=url.https://%s/.insteadOf", at, host));

	return r < 0 ? r : add(entries, n, str_format("GIT_CONFIG_VALUE_%zu=%s", at, before));
}

static int
add_host(char **entries, size_t *n, size_t at, const char *host)
{
	OWN(freep) char *scp = str_format("git@%s:", host), *url = str_format("ssh://git@%s/", host);
	int r = scp == NULL || url == NULL ? -ENOMEM : add_rewrite(entries, n, at, host, scp);

	return r < 0 ? r : add_rewrite(entries, n, at + 1, host, url);
}

int
run_note_git(struct run *run, const struct policy *policy, struct err *err)
{
	const char *hosts[POLICY_GIT_HOSTS_MAX];
	const size_t n_hosts = policy_git_hosts(policy, hosts);
	size_t n = 0;
	int r = 0;

	if (n_hosts == 0)
		return 0;
	run->git = calloc(ENTRIES + 1, sizeof(char *));
	if (run->git == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = add(run->git, &n, str_format("GIT_CONFIG_COUNT=%zu", FORMS * n_hosts));
	for (size_t i = 0; r == 0 && i < n_hosts; i++)
		r = add_host(run->git, &n, FORMS * i, hosts[i]);
	return r < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
run_copy_git(struct run *run, char *const *env, struct err *err)
{
	static const char start[] = "GIT_CONFIG_";
	size_t n = 0;
	int r = 0;

	run->git = calloc(strv_len(env) + 1, sizeof(char *));
	for (; run->git != NULL && r == 0 && *env != NULL; env++)
		if (strncmp(*env, start, sizeof(start) - 1) == 0)
			r = add(run->git, &n, strdup(*env));
	return run->git == NULL || r < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}
