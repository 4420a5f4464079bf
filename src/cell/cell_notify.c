/* cell_notify.c - see cell_notify.h. */
#include "cell/cell_notify.h"

#include <stddef.h>

#include "base/data.h"

char *
cell_notify_file(void)
{
	return data_config_path("notify.yaml", NULL);
}
