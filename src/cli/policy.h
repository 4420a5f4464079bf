/* policy.h - what the commands of `cloister policy` share. */
#ifndef CLOISTER_CLI_POLICY_H
#define CLOISTER_CLI_POLICY_H
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "http/http_head.h"
#include "policy/policy.h"

#define POLICY_CLI_WRONG 1              /* exit status: a policy or a case is wrong */
#define POLICY_CLI_FILE "cloister.yaml"  /* the policy that is meant when none is named */
#define POLICY_CLI_BODY_MAX (64 * 1024 * 1024)

struct policy_cli {
	bool json;
	const char *cases;              /* --cases */
	const char *headers[HTTP_FIELDS_MAX];
	size_t n_headers;
	const char *body;               /* --body */
	const char *within[POLICY_GIVEN_MAX - 1];      /* --within, the nearest first */
	size_t n_within;
	const char *principal, *chain;  /* or NULL */
	bool now, dry_run;
	const char *why;                /* or NULL */
};

int policy_cli_check(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_test(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_explain(const struct policy_cli *cli, int argc, char **argv);

/* ---- policy_cell.c: that of a running cell ---- */

/* Whether `show` with these words means a cell. */
bool policy_cli_is_cells(int argc, char **argv);
int policy_cli_show(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_set(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_edit(const struct policy_cli *cli, int argc, char **argv);

/* The folder, an O_PATH descriptor of the caller's, that has the cloister.yaml which is meant in START:
 * that one, or *RET_UP above it.  It is looked for upwards as far as folders are the operator's own and
 * of one file system, and not at home.  -1: there is none. */
int policy_cli_find(const char *start, unsigned *ret_up);
/* With no words left, the cloister.yaml of this folder or above is the one; false if there is none. */
bool policy_cli_default(int *argc, char ***argv);
/* Tell why a policy does not load: "file:line:column: ..."; returns POLICY_CLI_WRONG. */
int policy_cli_refuse(const struct policy_cli *cli, const char *file, const struct err *err);

/* ---- freezing.c ---- */

/* What people should know beforehand of a policy that has cells frozen, where they cannot be: how
 * many notes.  EXFILTRATION: that is said to freeze, too. */
#define POLICY_CLI_NOTES 2
size_t policy_cli_freezing(const struct policy *p, bool exfiltration,
                           struct err ret_notes[POLICY_CLI_NOTES]);
void policy_cli_tell_freezing(const struct policy *p, bool exfiltration);       /* on stderr */

/* ---- policy_within.c ---- */

/* The policy FILE for --principal and --chain, within those of --within. */
int policy_cli_load(const struct policy_cli *cli, const char *file, struct policy **ret_policy,
                    struct err *err);
/* P, which was loaded otherwise, within them. */
int policy_cli_within(const struct policy_cli *cli, struct policy *p, struct err *err);
/* What they make of each rule of P. */
void policy_cli_show_pairs(const struct policy_cli *cli, const struct policy *p);

/* ---- policy_request.c: a request as people write it ---- */

struct policy_asked {
	struct policy_request req;
	struct http_head head;
	char host[HTTP_HOST_MAX + 1];
	char *texts;                    /* what HEAD points into */
	const char *body;               /* borrowed; NULL: none */
	size_t n_body;
	char refused[256];              /* why the gate refuses it before any rule is asked, or "" */
};

/* METHOD may be NULL.  URL is http://, https://, ws:// or wss://, or tcp:// or tls:// with
 * a port; https without any.  HEADERS are "name: value". */
int policy_asked_init(struct policy_asked *asked, const char *method, const char *url,
                      const char *const *headers, size_t n_headers, const char *body,
                      size_t n_body, struct err *err);
void policy_asked_free(struct policy_asked *asked);

/* ---- policy_explain.c ---- */

#define POLICY_STEP_TEXT_MAX 256
struct policy_step;
/* What a rule says to ASKED: "no: the method is POST". */
void policy_cli_describe(const struct policy_asked *asked, const struct policy_step *step,
                         char ret_text[POLICY_STEP_TEXT_MAX]);

/* ---- policy_judge.c: the answer, bodies included ---- */

struct policy_judge;                    /* opaque: a policy, and cloister-inspect once needed */

struct policy_judgement {
	struct policy_decision decision;        /* as the courier would act on it */
	struct policy_logged logged;
	char why[256];                  /* what else refused it, or "" */
	unsigned char fits[POLICY_FITS_MAX];
	size_t n_fits;                  /* 0: the body was not looked into */
};

/* P is borrowed. */
int policy_judge_new(const struct policy *p, struct policy_judge **ret_judge, struct err *err);
void policy_judge_freep(struct policy_judge **judge);
int policy_judge(struct policy_judge *judge, struct policy_asked *asked,
                 struct policy_judgement *ret_judgement, struct err *err);

const char *policy_verdict_name(enum policy_verdict verdict);
#endif
