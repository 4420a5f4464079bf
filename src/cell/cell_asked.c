/* cell_asked.c - the cell of a dispatch that this machine runs, by the id of the dispatch: see cell_dirs.h.
 *
 * The dispatch's own folder says so: the last cell.boot of its events counts. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/own.h"
#include "canon/canon.h"
#include "cell/cell_dirs.h"

#define DISPATCHES "dispatches"
#define EVENTS "events.jsonl"
#define LINE_LEN_MAX 1024               /* of a cell.boot */
#define READ_MAX (16 * 1024)
#define ASKED_MAX 16                    /* dispatches that a word may mean */

/* LINE has LEN bytes.  An agent's output cannot look like this: its lines begin with another member. */
static void
take_line(const char *line, size_t len, char ret_cell[CELL_ID_LEN + 1])
{
	static const char begins[] = "{\"attempt\":";
	OWN(json_decrefp) json_t *event = NULL;
	const char *cell, *type;

	if (len < sizeof(begins) || memcmp(line, begins, sizeof(begins) - 1) != 0 || canon_read(line, len, &event, NULL) < 0)
		return;
	type = json_string_value(json_object_get(event, "event"));
	cell = json_string_value(json_object_get(event, "cell"));
	if (type != NULL && strcmp(type, "cell.boot") == 0 && cell != NULL && strlen(cell) == CELL_ID_LEN)
		memcpy(ret_cell, cell, CELL_ID_LEN + 1);
}

static bool
read_cell(int folder, const char *id, char ret_cell[CELL_ID_LEN + 1])
{
	OWN(closep) int dir = openat(folder, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	OWN(closep) int fd = dir < 0 ? -1 : openat(dir, EVENTS, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char buffer[READ_MAX], line[LINE_LEN_MAX];
	size_t len = 0;
	ssize_t n;

	*ret_cell = '\0';
	while (fd >= 0 && (n = read(fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			if (buffer[i] != '\n') {
				if (len < sizeof(line))
					line[len] = buffer[i];
				len++;
				continue;
			}
			if (len <= sizeof(line))
				take_line(line, len, ret_cell);
			len = 0;
		}
	return *ret_cell != '\0';
}

size_t
cell_find_asked(const char *word, const struct cell_entry *entries, size_t n, const struct cell_entry **ret_entry)
{
	OWN(closep) int folder = data_folder(DISPATCHES, false, NULL);
	int copy = folder < 0 ? -1 : openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *all = copy < 0 ? NULL : fdopendir(copy);
	size_t len = strlen(word), asked = 0, hits = 0;
	char cell[CELL_ID_LEN + 1];
	struct dirent *d;

	while (all != NULL && asked < ASKED_MAX && (d = readdir(all)) != NULL) {
		if (strncmp(d->d_name, word, len) != 0)
			continue;
		asked++;
		for (size_t i = read_cell(folder, d->d_name, cell) ? 0 : n; i < n; i++)
			if (strcmp(entries[i].id, cell) == 0) {
				*ret_entry = &entries[i];
				hits++;
			}
	}
	return hits;
}
