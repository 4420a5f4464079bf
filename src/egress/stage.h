/* stage.h - the rows of stages that each exchange passes on its way out and back (stages.c).
 *
 * A stage that waits is resumed by exchange_resume(): its run() is called again, and answers
 * again.  A new stage is one row in stages.c and one file. */
#ifndef CLOISTER_EGRESS_STAGE_H
#define CLOISTER_EGRESS_STAGE_H
#include <stdbool.h>
#include <stddef.h>

struct exchange;
struct http_head;

enum stage_answer {
	STAGE_CONTINUE,
	STAGE_WAIT,                     /* exchange_resume() will be called */
	STAGE_REFUSE,                   /* it was refused, with exchange_refuse() */
	STAGE_ANSWER,                   /* it was answered, with exchange_answer() */
	STAGE_AGAIN,                    /* the request changed, or a layer of the policy is next: go on at
	                                 * the stage "hook" */
};

enum stage_kinds { STAGE_HTTP = 1, STAGE_RAW = 2, STAGE_BOTH = 3 };

struct stage {
	const char *name;
	enum stage_kinds kinds;         /* of exchanges that pass it */
	enum stage_answer (*run)(struct exchange *ex);
	/* EX no longer waits here: it has ended, or was refused elsewhere.  May be NULL. */
	void (*stop)(struct exchange *ex);
	/* EX has waited here for as long as it may: fail or refuse it.  NULL: it never waits here. */
	void (*late)(struct exchange *ex);
	/* EX is over: free the stage's own state.  May be NULL. */
	void (*free)(struct exchange *ex);
};

/* A stage that responses pass. */
struct answer_stage {
	const char *name;
	/* A head came, and may be changed.  WAIT: the stage keeps it, and passes it on later.  REFUSE: EX
	 * has failed. */
	enum stage_answer (*head)(struct exchange *ex, struct http_head *head, bool has_body);
	/* Bytes came.  WAIT: the stage has taken them, and passes on what becomes of them. */
	enum stage_answer (*data)(struct exchange *ex, const void *data, size_t len);
};

/* Put EX, which is new, at the beginning of the row. */
void exchange_begin(struct exchange *ex);
/* What EX's stage waits for has come. */
void exchange_resume(struct exchange *ex);
/* EX waits no longer, and goes no further. */
void exchange_stop(struct exchange *ex);
/* EX's deadline has passed at its stage. */
void exchange_late_at_stage(struct exchange *ex);
/* Free what the stages keep of EX. */
void exchange_free_stages(struct exchange *ex);
/* Pass a response head, or bytes of a server, along the way back.  CONTINUE: send the result to the
 * gate. */
enum stage_answer exchange_pass_head(struct exchange *ex, struct http_head *head, bool has_body);
enum stage_answer exchange_pass_data(struct exchange *ex, const void *data, size_t len);

enum stage_answer stage_decide(struct exchange *ex);
enum stage_answer stage_hook(struct exchange *ex);
enum stage_answer stage_rewrite(struct exchange *ex);
enum stage_answer stage_look(struct exchange *ex);
enum stage_answer stage_certificate(struct exchange *ex);
enum stage_answer stage_swap(struct exchange *ex);
enum stage_answer stage_inspect(struct exchange *ex);
enum stage_answer stage_ask(struct exchange *ex);
enum stage_answer stage_sign(struct exchange *ex);
enum stage_answer stage_login(struct exchange *ex);
enum stage_answer stage_uses(struct exchange *ex);
enum stage_answer stage_tripwire(struct exchange *ex);
enum stage_answer stage_budget(struct exchange *ex);
enum stage_answer stage_consequence(struct exchange *ex);
enum stage_answer stage_strict(struct exchange *ex);

enum stage_answer meter_head(struct exchange *ex, struct http_head *head, bool has_body);
enum stage_answer meter_data(struct exchange *ex, const void *data, size_t len);
enum stage_answer injection_head(struct exchange *ex, struct http_head *head, bool has_body);
enum stage_answer injection_data(struct exchange *ex, const void *data, size_t len);
enum stage_answer scrub_head(struct exchange *ex, struct http_head *head, bool has_body);
enum stage_answer scrub_data(struct exchange *ex, const void *data, size_t len);

void hook_stop(struct exchange *ex);
void rewrite_stop(struct exchange *ex);
void ask_stop(struct exchange *ex);
void budget_stop(struct exchange *ex);
void strict_stop(struct exchange *ex);
void hook_late(struct exchange *ex);
void inspect_late(struct exchange *ex);
void ask_late(struct exchange *ex);
void login_late(struct exchange *ex);
void budget_late(struct exchange *ex);
void strict_late(struct exchange *ex);
#endif
