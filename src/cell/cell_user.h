/* cell_user.h - names of users, as /etc/passwd has them. */
#ifndef CLOISTER_CELL_USER_H
#define CLOISTER_CELL_USER_H
#include <stdbool.h>
#include <sys/types.h>

#define CELL_USER_MAX 64

/* Without name services, which a static program cannot ask: false where the file does not know
 * UID. */
bool cell_user_name(uid_t uid, char ret_name[CELL_USER_MAX]);
#endif
