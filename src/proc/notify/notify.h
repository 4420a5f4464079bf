/* notify.h - cloister-notify: sends a supervisor's events to the operator's own programs and
 * webhooks, and retries failures. */
#ifndef CLOISTER_NOTIFY_H
#define CLOISTER_NOTIFY_H
#include <stddef.h>
#include <stdint.h>

struct err;

#define NOTIFY_TARGETS_MAX 16
#define NOTIFY_WORDS_MAX 64             /* of a command */
#define NOTIFY_FILE_MAX (64 * 1024)
#define NOTIFY_SECRET_MAX 64            /* bytes, as in Standard Webhooks; at least 24 */
#define NOTIFY_SECRET_LEAST 24
#define NOTIFY_ID_MAX 48
#define NOTIFY_TRIES 5
#define NOTIFY_COMMAND_S 30             /* time limit of a command */
#define NOTIFY_WEBHOOK_S 10

/* Bits. */
enum notify_event { NOTIFY_ASK = 1, NOTIFY_BUDGET = 2, NOTIFY_TRIPWIRE = 4, NOTIFY_CONSEQUENCE = 8, NOTIFY_WATCH = 16,
                    NOTIFY_ALL = 31 };

struct notify_target {
	char **command;                 /* or NULL: */
	char *webhook;
	unsigned char secret[NOTIFY_SECRET_MAX];
	size_t n_secret;
	unsigned on;                    /* enum notify_event */
};
struct notify_config {
	struct notify_target targets[NOTIFY_TARGETS_MAX];
	size_t n;
};

/* ---- notify_config.c ---- */

/* Reads the operator's file at PATH, which nobody else may write.  Errors begin with the place. */
int notify_config_load(const char *path, struct notify_config *ret_config, struct err *err);
void notify_config_free(struct notify_config *c);       /* for OWN() too */
/* Its bit; 0: there is no such event. */
unsigned notify_event_bit(const char *event);

/* ---- notify_send.c ---- */

/* The message, the same for all targets and tries. */
struct notify_message {
	const char *event;
	char id[NOTIFY_ID_MAX];
	const char *body;               /* {"type":...,"timestamp":...,"data":{...}} */
	size_t len;
};
/* Sends once.  -ECANCELED: do not retry. */
int notify_send(const struct notify_target *target, const struct notify_message *message,
                struct err *err);

/* ---- notify_sign.c ---- */

/* The value of webhook-signature (Standard Webhooks 1.0: v1, HMAC-SHA256). */
#define NOTIFY_SIGNATURE_MAX 64
void notify_sign(const unsigned char *secret, size_t n_secret, const char *id, uint64_t timestamp,
                 const char *body, size_t len, char ret_signature[NOTIFY_SIGNATURE_MAX]);
/* "whsec_BASE64"; -EINVAL. */
int notify_read_secret(const char *text, unsigned char ret_secret[NOTIFY_SECRET_MAX],
                       size_t *ret_n);
#endif
