/* profile_home.c - what agents keep between runs: homes/PROFILE/PROJECT in the data folder.
 *
 * Every project has its own, so that an agent that was talked over in one project leaves nothing behind for
 * another. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "cli/profile.h"

#define NAME_SHOWN 40                   /* bytes of the folder's name, for people */
#define HASH_SHOWN 16                   /* digits of the path's hash */

char *
profile_home_project(const char *workspace)
{
	const char *slash = strrchr(workspace, '/'), *name = slash != NULL ? slash + 1 : workspace;
	char shown[NAME_SHOWN + 1] = "", text[HASH_NAME + 1];
	unsigned char hash[HASH_LEN];

	for (size_t i = 0; i < NAME_SHOWN && name[i] != '\0'; i++)
		shown[i] = isalnum((unsigned char)name[i]) || strchr("._-", name[i]) != NULL ? name[i] : '_';
	hash_of(workspace, strlen(workspace), hash);
	hash_name(hash, text);
	return str_format("%s-%.*s", shown, HASH_SHOWN, text + strlen(HASH_PREFIX));
}

static int
remove_one(int homes, const char *project, struct err *err)
{
	OWN(closep) int dir = tree_open_dir_anyway(homes, project);
	int r;

	if (dir == -ENOENT)
		return 0;
	if (dir < 0)
		return err_set(err, -dir, "cannot open '%s': %s", project, strerrordesc_np(-dir));
	r = tree_empty(dir, err);
	if (r == 0 && unlinkat(homes, project, AT_REMOVEDIR) < 0)
		r = err_errno(err, "cannot remove '%s'", project);
	return r < 0 ? r : 1;
}

int
profile_home_forget(const char *name, const char *project, struct err *err)
{
	OWN(freep) char *part = str_format(DATA_HOMES "/%s", name);
	OWN(closep) int homes = part == NULL ? -ENOMEM : data_folder(part, false, err);
	OWN(closedirp) DIR *list = NULL;
	struct dirent *d;
	int n = 0, r = 0;

	if (homes < 0)
		return homes == -ENOENT ? 0 : homes;
	if (project != NULL)
		return remove_one(homes, project, err);
	list = tree_list(homes);
	while (r >= 0 && list != NULL && (d = readdir(list)) != NULL) {
		r = tree_is_dots(d->d_name) ? 0 : remove_one(homes, d->d_name, err);
		n += r > 0;
	}
	return r < 0 ? r : n;
}
