/* azure_sas.h - Azure Storage's shared access signatures: URLs that a storage account's key
 * signed, for an account or for one container, blob, share, file, queue or table. */
#ifndef CLOISTER_AZURE_SAS_H
#define CLOISTER_AZURE_SAS_H
#include "sign/scheme_parts.h"

/* Whether HEAD's query is such a URL's; *ret_account is the account, in the host or the path.
 * What is signed with a user's delegation key is none: the account's key has no part in it. */
bool azure_sas_find(const struct http_head *head, struct http_text *ret_account);
/* As struct sign_scheme's sign.  The signature alone is what makes such a URL good, so that M
 * has it among what was made.  A URL that the placeholder did not sign is left alone: somebody may
 * have given it to the agent, and it is good or not as it is. */
int azure_sas_sign(const struct sign_key *from, const struct sign_key *to,
                   const struct http_head *was, struct http_head *head, struct sign_memory *m,
                   enum sign_next *ret_next, struct err *err);
#endif
