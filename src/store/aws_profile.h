/* aws_profile.h - profiles of Amazon's own clients, in their two files. */
#ifndef CLOISTER_AWS_PROFILE_H
#define CLOISTER_AWS_PROFILE_H
#include <stdbool.h>

#include "store/aws_keys.h"

#define AWS_PROFILE_NAME_MAX 128
#define AWS_PROFILE_TEXT_MAX 2048

struct aws_profile {
	bool found;
	char id[AWS_KEY_ID_MAX + 1], secret[AWS_KEY_SECRET_MAX + 1], token[AWS_KEY_TOKEN_MAX + 1];
	char region[64];
	char process[AWS_PROFILE_TEXT_MAX + 1];         /* a program that prints its keys */
	/* It is a role that another profile, or a service, may take. */
	char role[AWS_PROFILE_TEXT_MAX + 1], source[AWS_PROFILE_NAME_MAX + 1], service[64], external[AWS_PROFILE_TEXT_MAX + 1];
	char session[65], web_token[AWS_PROFILE_TEXT_MAX + 1];
	/* Its keys come by a login in a browser. */
	char sso[AWS_PROFILE_NAME_MAX + 1], sso_url[AWS_PROFILE_TEXT_MAX + 1], sso_region[64], sso_account[32], sso_role[128];
};

/* AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials; AWS_CONFIG_FILE or ~/.aws/config.  The caller owns it; NULL: there is no
 * home folder. */
char *aws_profile_keys_path(void);
char *aws_profile_config_path(void);
/* Reads NAME in KEYS, where its key counts before any other, and in CONFIG; NULL: that file is not read.  A missing file
 * counts as empty.  AGAIN: the folders are all that is seen here now, and the files were checked before. */
int aws_profile_read(const char *keys, const char *config, const char *name, bool again, struct aws_profile *ret_profile,
                     struct err *err);
void aws_profile_wipe(struct aws_profile *p);   /* for OWN() too */
#endif
