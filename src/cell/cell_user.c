/* cell_user.c - see cell_user.h. */
#include "cell/cell_user.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"

#define PASSWD_MAX (1024 * 1024)

/* "name:x:uid:..."; modifies LINE. */
static bool
is_of(char *line, uid_t uid)
{
	char *rest = line;
	const char *number;
	uint64_t n;

	(void)strsep(&rest, ":");
	(void)strsep(&rest, ":");
	number = strsep(&rest, ":");
	return number != NULL && num_parse_count(number, 0, UINT32_MAX, &n, NULL) == 0 && n == uid;
}

bool
cell_user_name(uid_t uid, char ret_name[CELL_USER_MAX])
{
	OWN(freep) char *text = NULL;
	char *rest, *line;

	if (read_file_at(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text, NULL, NULL) < 0)
		return false;
	for (rest = text; (line = strsep(&rest, "\n")) != NULL;) {
		if (!is_of(line, uid) || *line == '\0' || strlen(line) >= CELL_USER_MAX)
			continue;
		snprintf(ret_name, CELL_USER_MAX, "%s", line);
		return true;
	}
	return false;
}
