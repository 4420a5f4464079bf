/* cell_notify.c - see cell_notify.h. */
#include "cell/cell_notify.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/io.h"

char *
cell_notify_file(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config != NULL && config[0] == '/')
		return str_format("%s/cloister/notify.yaml", config);
	if (geteuid() == 0)
		return str_format("/etc/cloister/notify.yaml");
	return home != NULL && home[0] == '/' ? str_format("%s/.config/cloister/notify.yaml", home)
	                                      : NULL;
}
