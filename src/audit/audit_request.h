/* audit_request.h - what `cloister audit` asks of cloister-audit: its arguments.
 *
 *   cloister-audit VERB FLAGS FORMAT KEY [WORD...]
 *
 * The command line was checked by `cloister`; this is not a language for people. */
#ifndef CLOISTER_AUDIT_REQUEST_H
#define CLOISTER_AUDIT_REQUEST_H

#define AUDIT_FLAG_ALL 'a'              /* FLAGS: these letters, or "-" for none */
#define AUDIT_FLAG_OPERATOR 'o'
#define AUDIT_FLAG_JSON 'j'

/* What `verify` says with its exit status. */
#define AUDIT_EXIT_SOUND 0
#define AUDIT_EXIT_FOUND 1
#define AUDIT_EXIT_FAILED 125
#endif
