/* policy.h - shared by the commands of `cloister policy`. */
#ifndef CLOISTER_CLI_POLICY_H
#define CLOISTER_CLI_POLICY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/err.h"
#include "http/http_head.h"
#include "policy/policy.h"
#include "policy/policy_rewrite.h"

#define POLICY_CLI_WRONG 1              /* exit status: a policy or a case is wrong */
#define POLICY_CLI_FILE "cloister.yaml"  /* the default policy file */
#define POLICY_CLI_BODY_MAX (64 * 1024 * 1024)

struct boundary;
struct buf;
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

int policy_cli_test(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_explain(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_trust(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_schema(const struct policy_cli *cli, int argc, char **argv);

/* ---- policy_cell.c: the policy of a running cell ---- */

/* Whether `show` with these words refers to a cell. */
bool policy_cli_is_cells(int argc, char **argv);
int policy_cli_show(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_set(const struct policy_cli *cli, int argc, char **argv);
int policy_cli_edit(const struct policy_cli *cli, int argc, char **argv);

/* Finds the folder of the FILE, such as cloister.yaml, that applies in START: START itself, or *RET_UP levels
 * above.  Returns an O_PATH descriptor that the caller owns; -1: there is none.  The search goes
 * upwards while folders belong to the operator, are not writable by everybody and are on one file
 * system.  It never goes up to the home folder or "/". */
int policy_cli_find(const char *start, const char *file, unsigned *ret_up);
/* If no words are left, uses the cloister.yaml of this folder or above; false if there is none. */
bool policy_cli_default(int *argc, char ***argv);
/* Prints why a policy does not load: "file:line:column: ..."; returns POLICY_CLI_WRONG. */
int policy_cli_refuse(const struct policy_cli *cli, const char *file, const struct err *err);

/* ---- policy_trust.c: a project's policy counts for an agent once a person has accepted its content ---- */

/* Append the text of the cloister.yaml in FOLDER; if it names other files, all of it as one text.  If it has `tools`, comments
 * behind it have what else the acceptance is bound to. */
int policy_cli_read(int folder, struct buf *ret_text, bool *ret_is_accepted, struct err *err);
int policy_cli_accept(const struct buf *text, struct err *err);
/* ---- policy_bound.c ---- */

/* Append these comments to the TEXT of the policy in FOLDER. */
int policy_cli_put_bound(int folder, struct buf *text, struct err *err);

/* For people, who are to judge it. */
void policy_cli_print_text(FILE *out, const struct buf *text);

/* ---- freezing.c ---- */

/* If cells of this BOUNDARY cannot be frozen on this machine, the notes on what a policy's freezes do
 * instead; returns how many.  EXFILTRATION: an exfiltration is to freeze, too. */
#define POLICY_CLI_NOTES 2
size_t policy_cli_freezing(const struct policy *p, const struct boundary *boundary, bool exfiltration,
                           struct err ret_notes[POLICY_CLI_NOTES]);
/* Prints them on stderr. */
void policy_cli_tell_freezing(const struct policy *p, const struct boundary *boundary,
                              bool exfiltration);

/* ---- policy_within.c ---- */

/* Loads the policy FILE for --principal and --chain, within those of --within. */
int policy_cli_load(const struct policy_cli *cli, const char *file, struct policy **ret_policy,
                    struct err *err);
/* Puts P, which was loaded elsewhere, within them. */
int policy_cli_within(const struct policy_cli *cli, struct policy *p, struct err *err);
/* Prints how they change each rule of P. */
void policy_cli_show_pairs(const struct policy_cli *cli, const struct policy *p);

/* ---- policy_request.c: a request as people write it ---- */

struct policy_asked {
	struct policy_request req;
	struct http_head head;
	char host[HTTP_HOST_MAX + 1];
	char *texts;                    /* what HEAD points into */
	char *call;                     /* the body of a call, or NULL */
	const char *body;               /* borrowed; NULL: none */
	size_t n_body;
	char refused[256];              /* why the gate refuses it before any rule is evaluated, or "" */
};

/* METHOD may be NULL.  URL is http://, https://, ws:// or wss://, or tcp:// or tls:// with a port;
 * the default is https.  HEADERS are "name: value".  URL may also be a call of an MCP tool, such as
 * "tool:github.get_issue": then BODY is its arguments, a JSON object. */
int policy_asked_init(struct policy_asked *asked, const char *method, const char *url,
                      const char *const *headers, size_t n_headers, const char *body,
                      size_t n_body, struct err *err);
void policy_asked_free(struct policy_asked *asked);
/* Whether WORD is such a call. */
bool policy_asked_is_call(const char *word);

/* ---- policy_acts.c: what a process does, and the rules of `watch` ---- */

struct json;
struct node;
/* Whether WORD begins an act, as `exec` does; whether the case AT is about one. */
bool policy_cli_begins_act(const char *word);
bool policy_cli_is_act(const struct node *at);
int policy_cli_test_act(const struct policy_cli *cli, const struct policy *p, const struct node *at, struct json *out,
                        bool *ret_passed, struct err *err);
/* Print which rules fit the act WORD ("write") of WHAT ("~/.ssh/config"); the exit status. */
int policy_cli_explain_act(const struct policy_cli *cli, const struct policy *p, const char *word, const char *what);

/* ---- policy_explain.c ---- */

#define POLICY_STEP_TEXT_MAX 256
struct policy_step;
/* How a rule applies to ASKED: "no: the method is POST". */
void policy_cli_describe(const struct policy_asked *asked, const struct policy_step *step,
                         char ret_text[POLICY_STEP_TEXT_MAX]);

/* ---- policy_judge.c: the decision, bodies included ---- */

struct policy_judge;                    /* opaque: a policy, and cloister-inspect once needed */

struct policy_judgement {
	struct policy_decision decision;        /* as the courier would act on it */
	struct policy_logged logged;
	char why[ERR_TEXT_MAX];         /* any other reason for a refusal, or "" */
	unsigned char fits[POLICY_FITS_MAX];
	size_t n_fits;                  /* 0: the body was not inspected */
};

/* P is borrowed. */
int policy_judge_new(const struct policy *p, struct policy_judge **ret_judge, struct err *err);
void policy_judge_freep(struct policy_judge **judge);
int policy_judge(struct policy_judge *judge, struct policy_asked *asked,
                 struct policy_judgement *ret_judgement, struct err *err);

/* Make the request as it is sent, if JUDGEMENT lets it through.  If it cannot be rewritten, it is
 * denied.  *ret_sent is the caller's (policy_sent_freep); NULL if it is denied. */
struct policy_sent;
int policy_judge_sent(struct policy_judge *judge, const struct policy_asked *asked,
                      struct policy_judgement *judgement, struct policy_sent **ret_sent,
                      struct err *err);
/* Set only the members of *ret_judgement about the body of ASKED. */
int policy_judge_inspect(struct policy_judge *judge, struct policy_asked *asked,
                         struct policy_judgement *ret_judgement, struct err *err);

const char *policy_verdict_name(enum policy_verdict verdict);

/* ---- policy_sent.c: the request after the rewrites of its rules ---- */

struct json;
struct policy_sent {
	struct http_head head;
	struct buf body;
	char *paths[POLICY_LAYERS_MAX];         /* memory for HEAD */
	const struct policy_edit *edits[POLICY_LAYERS_MAX * POLICY_EDITS_MAX];  /* that changed it */
	size_t n_edits;
};

/* Make ASKED as it is sent by *DECISION of P, which lets it through, and which becomes the decision on
 * the result.  JUDGE is that of P.  Edits of a body are made only if there is one.  An error explains
 * why the request is refused after all; *DECISION stays then.  P and ASKED must outlive the result,
 * which the caller owns. */
int policy_sent_make(struct policy_judge *judge, const struct policy *p,
                     const struct policy_asked *asked, struct policy_decision *decision,
                     struct policy_sent **ret_sent, struct err *err);
void policy_sent_freep(struct policy_sent **sent);      /* for OWN() */
/* Both print nothing if nothing was changed. */
void policy_sent_print(const struct policy_sent *sent);
void policy_sent_json(struct json *out, const struct policy_sent *sent);        /* as "sent" */
#endif
