/* audit_request.h - the arguments by which `cloister audit` starts cloister-audit.
 *
 *   cloister-audit VERB FLAGS FORMAT KEY [WORD...]
 *
 * With `show`, KEY is the time of --since, as records have it.  `cloister` has checked the command line; people do not write this form. */
#ifndef CLOISTER_AUDIT_REQUEST_H
#define CLOISTER_AUDIT_REQUEST_H

#define AUDIT_FLAG_ALL 'a'              /* FLAGS: these letters, or "-" for none */
#define AUDIT_FLAG_OPERATOR 'o'
#define AUDIT_FLAG_JSON 'j'

/* Exit statuses of `verify`. */
#define AUDIT_EXIT_SOUND 0
#define AUDIT_EXIT_FOUND 1
#define AUDIT_EXIT_FAILED 125
#endif
