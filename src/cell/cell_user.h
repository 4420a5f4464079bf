/* cell_user.h - looks up names of users in /etc/passwd. */
#ifndef CLOISTER_CELL_USER_H
#define CLOISTER_CELL_USER_H
#include <stdbool.h>
#include <sys/types.h>

#define CELL_USER_MAX 64

/* Does not use name services, which a static program cannot query: false if the file has no UID. */
bool cell_user_name(uid_t uid, char ret_name[CELL_USER_MAX]);
#endif
