/* layer_ids.c - users and groups of an image, as its own /etc has them. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "proc/layer/layer.h"

#define FILE_MAX (1u << 20)
#define ID_MAX (UINT32_MAX - 1)

/* The third field of the line of TEXT that begins with NAME and a colon. */
static bool
find_id(char *text, const char *name, uint32_t *ret_id)
{
	const size_t len = strlen(name);
	char *line, *save = NULL;

	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		char *field = strncmp(line, name, len) == 0 && line[len] == ':' ? strchr(line + len + 1, ':') : NULL;
		uint64_t id;

		if (field == NULL)
			continue;
		field++;
		field[strcspn(field, ":")] = '\0';
		if (num_parse_count(field, 0, ID_MAX, &id, NULL) < 0)
			return false;
		*ret_id = (uint32_t)id;
		return true;
	}
	return false;
}

static int
look_up(const struct layered *tree, const char *file, const char *name, uint32_t *ret_id, struct err *err)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;
	char path[PATH_MAX];
	uint64_t id;

	if (num_parse_count(name, 0, ID_MAX, &id, NULL) == 0) {
		*ret_id = (uint32_t)id;
		return 0;
	}
	if (layered_find(tree, file, true, path, &f) == 0 && S_ISREG(f.st.st_mode))
		fd = layered_read(&f);
	if (fd < 0 || read_open(fd, file, FILE_MAX, &text, NULL, NULL) < 0 || !find_id(text, name, ret_id))
		return err_set(err, ENOENT, "there is no '%s' in the image's /%s", name, file);
	return 0;
}

int
layer_find_owner(const struct layered *tree, const char *text, uint32_t *ret_uid, uint32_t *ret_gid, struct err *err)
{
	OWN(freep) char *user = strdup(text);
	char *group = user == NULL ? NULL : strchr(user, ':');
	int r;

	if (user == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (group != NULL)
		*group++ = '\0';
	r = look_up(tree, "etc/passwd", user, ret_uid, err);
	if (r == 0 && group != NULL && group[0] != '\0')
		return look_up(tree, "etc/group", group, ret_gid, err);
	if (r == 0)
		*ret_gid = *ret_uid;
	return r;
}
