/* azure_sas.h - Azure Storage's shared access signatures: URLs signed with a storage account's key,
 * for an account or for one container, blob, share, file, queue or table. */
#ifndef CLOISTER_AZURE_SAS_H
#define CLOISTER_AZURE_SAS_H
#include "sign/scheme_parts.h"

/* Whether HEAD's query has such a signature.  *ret_account is the account, from the host or the
 * path.  A signature by a user's delegation key does not count: the account's key has no part in
 * it. */
bool azure_sas_find(const struct http_head *head, struct http_text *ret_account);
/* As struct sign_scheme's sign.  The signature alone makes such a URL valid, so it is added to M's
 * made tokens.  A URL that the placeholder did not sign is left unchanged: someone may have given
 * it to the agent, and it may be valid as it is. */
int azure_sas_sign(const struct sign_key *from, const struct sign_key *to,
                   const struct http_head *was, struct http_head *head, struct sign_memory *m,
                   enum sign_next *ret_next, struct err *err);
#endif
