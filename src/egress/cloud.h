/* cloud.h - writes refusals as the error documents of the client's cloud.
 *
 * A cloud's client library shows people the content of an error document that it knows.  For any
 * other response it shows only the status. */
#ifndef CLOISTER_EGRESS_CLOUD_H
#define CLOISTER_EGRESS_CLOUD_H
#include "base/buf.h"
#include "http/http_head.h"

enum cloud_dialect {
	CLOUD_NONE,
	CLOUD_S3,               /* <Error>: S3, and Google's XML API */
	CLOUD_AZURE,            /* the same, and a field with the code */
	CLOUD_QUERY,            /* <ErrorResponse>: services that take forms; Route 53 */
	CLOUD_EC2,              /* <Response><Errors> */
	CLOUD_JSON,             /* members and a field beside our own: the other AWS services */
};

/* The error format of the service, if the request HEAD is signed by a cloud's scheme. */
enum cloud_dialect cloud_dialect_of(const struct http_head *head);
/* The error code for WHY: a refusal, or a failure of the courier or upstream. */
const char *cloud_code(enum cloud_dialect dialect, const char *why, bool refused, bool may_retry);
bool cloud_is_xml(enum cloud_dialect dialect);
/* Write an error document; not for CLOUD_JSON. */
void cloud_put_xml(struct buf *b, enum cloud_dialect dialect, const char *code,
                   const char *message);
#endif
