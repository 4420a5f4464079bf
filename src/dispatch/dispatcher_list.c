/* dispatcher_list.c - the drives of a dispatcher: those with something to do here, those that others have, and all by id.
 *
 * Thousands may wait for workers, so nothing but a rare look goes through these. */
#include <string.h>

#include "dispatch/dispatcher_parts.h"

static struct drive **
bucket_of(struct dispatcher *dispatcher, const char *id)
{
	unsigned hash = 0;

	/* Ids are random letters. */
	for (size_t i = 0; i < 4 && id[i] != '\0'; i++)
		hash = hash * 37 + (unsigned char)id[i];
	return &dispatcher->by_id[hash % DRIVE_BUCKETS];
}

static void
take_out(struct drive *drive)
{
	if (drive->list == NULL)
		return;
	*drive->back = drive->next;
	if (drive->next != NULL)
		drive->next->back = drive->back;
	else
		drive->list->end = drive->back;
	drive->list->n--;
	drive->list = NULL;
}

static void
put_in(struct drive_list *list, struct drive *drive)
{
	drive->next = NULL;
	drive->back = list->end;
	*list->end = drive;
	list->end = &drive->next;
	list->n++;
	drive->list = list;
}

void
dispatcher_prepare_lists(struct dispatcher *dispatcher)
{
	dispatcher->drives.end = &dispatcher->drives.first;
	dispatcher->away.end = &dispatcher->away.first;
}

struct drive *
dispatcher_find(struct dispatcher *dispatcher, const char *id)
{
	struct drive *drive = *bucket_of(dispatcher, id);

	while (drive != NULL && (drive->phase == DRIVE_OVER || strcmp(drive->d.id, id) != 0))
		drive = drive->same;
	return drive;
}

void
dispatcher_list(struct drive *drive)
{
	struct dispatcher *dispatcher = drive->dispatcher;
	struct drive_list *list = drive->phase == DRIVE_AWAY ? &dispatcher->away : &dispatcher->drives;
	struct drive **bucket = bucket_of(dispatcher, drive->d.id);

	if (drive->list == list)
		return;
	if (drive->list == NULL) {
		drive->same = *bucket;
		*bucket = drive;
	}
	take_out(drive);
	put_in(list, drive);
}

void
dispatcher_unlist(struct drive *drive)
{
	struct drive **at = bucket_of(drive->dispatcher, drive->d.id), **told = &drive->dispatcher->told;

	while (*at != NULL && *at != drive)
		at = &(*at)->same;
	if (*at != NULL)
		*at = drive->same;
	while (drive->news && *told != NULL && *told != drive)
		told = &(*told)->next_told;
	if (drive->news && *told != NULL)
		*told = drive->next_told;
	drive->news = false;
	take_out(drive);
}

void
dispatcher_note_news(struct drive *drive)
{
	if (drive->news)
		return;
	drive->news = true;
	drive->next_told = drive->dispatcher->told;
	drive->dispatcher->told = drive;
}

struct drive *
dispatcher_take_told(struct dispatcher *dispatcher)
{
	struct drive *drive = dispatcher->told;

	if (drive == NULL)
		return NULL;
	dispatcher->told = drive->next_told;
	drive->news = false;
	return drive;
}
