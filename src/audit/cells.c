/* cells.c - see cells.h. */
#include "audit/cells.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/fields.h"

void
audit_cells_free(struct audit_cells *cells)
{
	free(cells->at);
	free(cells->places);
	*cells = (struct audit_cells){0};
}

/* The place of ID, or where it would be: FNV-1a. */
static uint32_t *
place(uint32_t *places, size_t n_places, const struct audit_cell *at, const char *id)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (const char *p = id; *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	for (size_t i = hash & (n_places - 1);; i = (i + 1) & (n_places - 1))
		if (places[i] == 0 || strcmp(at[places[i] - 1].id, id) == 0)
			return &places[i];
}

static int
grow(struct audit_cells *cells)
{
	size_t cap = cells->cap == 0 ? 64 : cells->cap * 2;
	struct audit_cell *at;
	uint32_t *places;

	if (cap > AUDIT_CELLS_MAX)
		return -E2BIG;
	at = realloc(cells->at, cap * sizeof(*at));
	if (at == NULL)
		return -ENOMEM;
	cells->at = at;
	places = calloc(cap * 2, sizeof(*places));
	if (places == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < cells->n; i++)
		*place(places, cap * 2, at, at[i].id) = (uint32_t)i + 1;
	free(cells->places);
	cells->places = places;
	cells->n_places = cap * 2;
	cells->cap = cap;
	return 0;
}

struct audit_cell *
audit_cells_find(const struct audit_cells *cells, const char *id)
{
	uint32_t i = cells->n == 0 ? 0 : *place(cells->places, cells->n_places, cells->at, id);

	return i == 0 ? NULL : &cells->at[i - 1];
}

/* The cell before it with the same id, or NULL: a chosen id can be chosen again. */
static struct audit_cell *
audit_cells_before(const struct audit_cells *cells, const struct audit_cell *cell)
{
	return cell->before == 0 ? NULL : &cells->at[cell->before - 1];
}

const struct audit_cell *
audit_cells_pick(const struct audit_cells *cells, const char *id, const unsigned char *key)
{
	const struct audit_cell *newest = audit_cells_find(cells, id);

	for (const struct audit_cell *c = newest; c != NULL && key != NULL; c = audit_cells_before(cells, c))
		if (memcmp(c->key, key, AUDIT_KEY) == 0)
			return c;
	return newest;
}

/* Adds a cell of that id, which earlier cells may have had. */
static int
make(struct audit_cells *cells, const char *id, struct audit_cell **ret_cell)
{
	int r = cells->n == cells->cap ? grow(cells) : 0;
	struct audit_cell *cell = r < 0 ? NULL : &cells->at[cells->n];
	uint32_t *number;

	if (r < 0)
		return r;
	*cell = (struct audit_cell){0};
	snprintf(cell->id, sizeof(cell->id), "%s", id);
	number = place(cells->places, cells->n_places, cells->at, id);
	cell->before = *number;
	*number = (uint32_t)++cells->n;
	*ret_cell = cell;
	return 0;
}

/* ---- events ---- */

static void
note_start(struct audit_cell *cell, const struct audit_record *record)
{
	if (!audit_field_hash(record->event, "key", cell->key))
		return;
	cell->started_n = record->n;
	(void)audit_field_text(record->event, "grant", cell->grant, sizeof(cell->grant));
	memcpy(cell->started, record->time.at, AUDIT_TIME_LEN);
}

static void
note_end(struct audit_cell *cell, const struct audit_record *record, enum audit_cell_end end)
{
	cell->end = end;
	cell->has_chain = audit_field_hash(record->event, "head", cell->head) &&
		audit_field_hash(record->event, "root", cell->root) &&
		audit_field_number(record->event, "size", &cell->size);
	if (!audit_field_number(record->event, "status", &cell->status))
		cell->status = 0;
	memcpy(cell->ended, record->time.at, AUDIT_TIME_LEN);
}

/* If several have the id, the oldest is removed first. */
static void
note_pruned(const struct audit_cells *cells, struct audit_cell *cell)
{
	struct audit_cell *oldest = cell;

	for (; cell != NULL; cell = audit_cells_before(cells, cell))
		if (!cell->pruned && cell->end != AUDIT_CELL_OPEN)
			oldest = cell;
	oldest->pruned = true;
}

int
audit_cells_note(struct audit_cells *cells, const struct audit_record *record)
{
	static const char mark[] = "\"type\":\"cell.";
	char type[16], id[AUDIT_ID_MAX + 1];
	struct audit_cell *cell;
	bool is_start;
	int r = 0;

	if (memmem(record->event.at, record->event.len, mark, sizeof(mark) - 1) == NULL ||
	    !audit_field_text(record->event, "type", type, sizeof(type)) ||
	    !audit_field_text(record->event, "cell", id, sizeof(id)))
		return 0;
	is_start = strcmp(type, "cell.started") == 0;
	cell = audit_cells_find(cells, id);
	if (cell == NULL || (is_start && cell->started_n != 0))
		r = make(cells, id, &cell);
	if (r < 0)
		return r;
	if (is_start)
		note_start(cell, record);
	else if (strcmp(type, "cell.ended") == 0)
		note_end(cell, record, AUDIT_CELL_ENDED);
	else if (strcmp(type, "cell.lost") == 0)
		note_end(cell, record, AUDIT_CELL_LOST);
	else if (strcmp(type, "cell.pruned") == 0)
		note_pruned(cells, cell);
	return 0;
}

void
audit_cell_anchor(const struct audit_cell *cell, struct audit_anchor *ret_anchor)
{
	*ret_anchor = (struct audit_anchor){ .is_there = cell->has_chain, .is_end = true,
	                                     .n = cell->size };
	memcpy(ret_anchor->head, cell->head, AUDIT_HASH);
}
