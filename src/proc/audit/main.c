/* main.c - cloister-audit: `cloister audit` becomes it.  See audit/audit_request.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "audit/audit_request.h"
#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tell.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "proc/audit/audit_proc.h"

static const struct {
	const char *name;
	int (*run)(const struct audit_args *args, struct err *err);
} verbs[] = {
	{ "verify", audit_do_verify }, { "show", audit_do_show }, { "export", audit_do_export },
	{ "prove", audit_do_prove }, { "key", audit_do_key },
};

/* Agents have written parts of timelines.  So a process that reads them can change only the
 * operator's own audit folder, with the lock and the key.  `key` reads none, and may have to create
 * the folder. */
static int
lock_down(struct err *err)
{
	OWN(freep) char *own = data_path("audit", err);
	OWN(closep) int fd = -1;
	int r;

	if (own == NULL)
		return -ENOMEM;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot give up privileges");
	r = landlock_make(LANDLOCK_FILES_TOO, (const char *const[]){ own, NULL }, &fd, err);
	if (r == 0)
		r = landlock_enforce(fd, err);
	return r < 0 ? r : filter_load(FILTER_AUDIT, err);
}

int
main(int argc, char **argv)
{
	char host[HOST_NAME_MAX + 1] = "";
	struct audit_args args;
	struct err err = {0};
	int status = -EINVAL;

	if (argc < 5) {
		fputs("cloister-audit is started by cloister only\n", stderr);
		return AUDIT_EXIT_FAILED;
	}
	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	args = (struct audit_args){
		.verb = argv[1], .format = argv[3], .key = argv[4], .host = host,
		.all = strchr(argv[2], AUDIT_FLAG_ALL) != NULL,
		.operator = strchr(argv[2], AUDIT_FLAG_OPERATOR) != NULL,
		.json = strchr(argv[2], AUDIT_FLAG_JSON) != NULL,
		.words = argv + 5, .n_words = argc - 5,
	};
	err_set(&err, EINVAL, "there is no `audit %.16s`", args.verb);
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (strcmp(args.verb, verbs[i].name) == 0)
			status = verbs[i].run != audit_do_key && lock_down(&err) < 0 ? -EPERM :
			         verbs[i].run(&args, &err);
	/* On a full disk, half an export must not pass for the whole. */
	if (status >= 0 && (fflush(stdout) != 0 || ferror(stdout)))
		status = err_errno(&err, "cannot write all of the output");
	return status < 0 ? tell_error(&err) : status;
}
