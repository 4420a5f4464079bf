/* aws_keys.h - the key to a service of Amazon's, or one like it: from variables, a file of the operator's, or a service of
 * the machine or the container.
 *
 * Variables and files are read once, before the lockdown, but for a file that somebody else renews. */
#ifndef CLOISTER_AWS_KEYS_H
#define CLOISTER_AWS_KEYS_H
#include <stdbool.h>
#include <stdint.h>

struct buf;
struct err;

#define AWS_KEY_ID_MAX 255
#define AWS_KEY_SECRET_MAX 1023
#define AWS_KEY_TOKEN_MAX (16 * 1024)

enum aws_keys_from { AWS_KEYS_VARIABLES, AWS_KEYS_WEB, AWS_KEYS_FILE, AWS_KEYS_CONTAINER, AWS_KEYS_MACHINE, AWS_KEYS_ROLE,
                     AWS_KEYS_SSO, AWS_KEYS_PROCESS };

struct aws_keys {
	const char *to;                 /* "S3", for messages: set by the caller */
	enum aws_keys_from from;
	char id[AWS_KEY_ID_MAX + 1], secret[AWS_KEY_SECRET_MAX + 1], token[AWS_KEY_TOKEN_MAX + 1];
	int64_t until;                  /* seconds since 1970; 0: they do not end */
	int64_t again;                  /* not before this time is a source asked again that has failed */
	/* AWS_KEYS_CONTAINER, AWS_KEYS_WEB, AWS_KEYS_ROLE, AWS_KEYS_SSO */
	char url[4096], authorization[4096];
	char *token_file;               /* NULL: none */
	/* AWS_KEYS_WEB: of a pod's service account, for one; AWS_KEYS_ROLE */
	char role[2049], session[65];
	/* AWS_KEYS_ROLE */
	char external[2049], region[64];
	struct aws_keys *base;          /* who takes the role */
	/* AWS_KEYS_PROCESS */
	int process;                    /* owned: a keeper (aws_process.h); 0: none */
	/* AWS_KEYS_MACHINE */
	char service[256];
	/* AWS_KEYS_FILE, read again if the server calls them expired */
	char *file, *config;
	char profile[129];
};

/* Sends a request to a service of the machine or the container: its answer, of at most BODY->max bytes.  FIELDS: lines,
 * ends with NULL. */
struct aws_asker {
	int (*ask)(void *arg, const char *method, const char *url, const char *const *fields, struct buf *body,
	           long *ret_status, struct err *err);
	void *arg;
};

/* Finds where the key comes from, and reads it if it is in variables or a file. */
int aws_keys_find(struct aws_keys *k, struct err *err);
/* The folder of a file that others write anew; NULL: none.  The caller owns it. */
char *aws_keys_folder(const struct aws_keys *k);
/* Asks for the key, if its source is a service and it is about to end.  ANEW: the server calls it expired. */
int aws_keys_renew(struct aws_keys *k, const struct aws_asker *asker, bool anew, struct err *err);
void aws_keys_wipe(struct aws_keys *k);
#endif
