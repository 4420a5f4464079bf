/* ns_collect.c - takes the changes of overlay workspaces out of a cell. */
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/overlay/overlay.h"
#include "boundary/overlay/overlay_collect.h"

bool
ns_is_changed(const struct walls *w, size_t grant)
{
	return w->uppers[grant] >= 0 && overlay_is_changed(w->uppers[grant]);
}

void
ns_collector(const struct walls *w, struct overlay_collector *ret_collector)
{
	*ret_collector = (struct overlay_collector){ w->libexec, w->userns, w->has_range };
}

int
ns_collect(struct walls *w, size_t grant, int target, uint32_t *ret_left_out, bool *ret_changed, struct err *err)
{
	struct overlay_collector c;

	ns_collector(w, &c);
	return overlay_collect(&c, w->uppers[grant], target, ret_left_out, ret_changed, err);
}

int
ns_upper(const struct walls *w, size_t grant)
{
	return w->uppers[grant];
}

int
ns_write_layer(struct walls *w, const struct cell_spec *spec, int out, struct err *err)
{
	char epoch[24], *argv[] = { (char[]){ "cloister-layer" }, (char[]){ "--changes" }, epoch, NULL };
	struct overlay_collector c;
	uint32_t entries;
	int r;

	ns_collector(w, &c);
	snprintf(epoch, sizeof(epoch), "%llu", (unsigned long long)spec->image.epoch);
	r = overlay_run_collector(&c, argv, w->uppers[spec->n_grants], out, &entries, NULL, err);
	return r < 0 ? err_wrap(err, "cannot make a layer of the changes") : 0;
}

/* In the scratch space they end with the cell. */
void
ns_remove_overlay_folders(const struct walls *w)
{
	for (size_t i = 0; w->changes >= 0 && i < CELL_GRANTS_MAX; i++)
		if (w->uppers[i] >= 0)
			overlay_remove(w->changes, i);
}
