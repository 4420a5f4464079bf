/* courier_cloud.h - refusals in the words of the cloud that a client speaks with.
 *
 * Its library shows people what is in the error documents that it knows, and of anything else
 * only the status. */
#ifndef CLOISTER_COURIER_CLOUD_H
#define CLOISTER_COURIER_CLOUD_H
#include "base/buf.h"
#include "http/http_head.h"

enum cloud_dialect {
	CLOUD_NONE,
	CLOUD_S3,               /* <Error>: S3, and Google's XML API */
	CLOUD_AZURE,            /* the same, and a field with the code */
	CLOUD_QUERY,            /* <ErrorResponse>: services that are sent forms; Route 53 */
	CLOUD_EC2,              /* <Response><Errors> */
	CLOUD_JSON,             /* members and a field beside our own: all others of AWS */
};

/* How the request HEAD is signed, if by a cloud's scheme, and what its service answers with. */
enum cloud_dialect cloud_dialect_of(const struct http_head *head);
/* The code for a refusal, or for a failure of ours, because of WHY. */
const char *cloud_code(enum cloud_dialect dialect, const char *why, bool refused, bool may_retry);
bool cloud_is_xml(enum cloud_dialect dialect);
/* An error document; not for CLOUD_JSON. */
void cloud_put_xml(struct buf *b, enum cloud_dialect dialect, const char *code,
                   const char *message);
#endif
