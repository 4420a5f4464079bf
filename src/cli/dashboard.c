/* dashboard.c - `cloister dashboard`: opens a link that logs a browser in, once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cli/cli.h"
#include "cli/service.h"
#include "trust/trust.h"

#define PAGE "dashboard.html"           /* in DATA/serve */

struct dashboard {
	bool open;
	const char *socket;
};

const struct cli_option cli_dashboard_options[] = {
	{ "open", 'o', NULL, "open the link in a browser with xdg-open", CLI_FLAG(struct dashboard, open) },
	{ "socket", 's', "PATH", "the service's socket (serve.sock in the runtime folder)",
	  CLI_TEXT(struct dashboard, socket) },
	{0}
};

/* Everybody on the machine can see a program's arguments, but not this link.  So the browser opens
 * a private file that leads there. */
static int
write_page(const char *url, char **ret_path, struct err *err)
{
	OWN(closep) int dir = data_folder("serve", true, err);
	OWN(closep) int fd = -1;
	char text[1024];

	if (dir < 0)
		return dir;
	snprintf(text, sizeof(text), "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" "
	         "content=\"no-referrer\">\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n"
	         "<title>cloister</title>\n<a href=\"%s\">to the dashboard</a>\n", url, url);
	(void)!unlinkat(dir, PAGE, 0);
	fd = openat(dir, PAGE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot create the file that opens the dashboard");
	*ret_path = data_path("serve/" PAGE, err);
	return *ret_path == NULL ? -ENOMEM : write_all(fd, text, strlen(text), err);
}

static int
open_browser(const char *url, struct err *err)
{
	OWN(freep) char *path = NULL;
	char program[] = "xdg-open", found[PATH_MAX];
	int r = write_page(url, &path, err);
	char *argv[] = { program, path, NULL };

	if (r < 0)
		return r;
	r = trust_command(TRUST_BROWSER, argv, found, err);
	/* If it is missing, its start explains that. */
	if (r == 0 && access(found, F_OK) == 0)
		r = trust_program(found, err);
	if (r < 0)
		return r;
	r = spawn_run(&(struct spawn){ .argv = argv, .path = found, .flags = SPAWN_COMMAND }, err);
	if (r < 0)
		return err_wrap(err, "open the link yourself");
	return r == 0 ? 0 : err_set(err, EIO, "xdg-open found no browser: open the link yourself");
}

int
cmd_dashboard(int argc, char **argv)
{
	struct dashboard d = {0};
	struct err err = {0};
	json_t *answer = NULL;
	const char *url;
	int rest, r;

	if (cli_parse(cli_dashboard_options, argc, argv, true, NULL, &d, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest < argc)
		return cli_failf("'dashboard' takes no arguments: remove '%.64s'", argv[rest]);
	if (service_ask(d.socket, "POST", "/v1/session/code", &answer, &err) < 0)
		return cli_fail(&err);
	url = json_string_value(json_object_get(answer, "url"));
	if (url == NULL) {
		json_decref(answer);
		return cli_failf("the service returned no link: is it another version?");
	}
	puts(url);
	fflush(stdout);
	r = d.open ? open_browser(url, &err) : 0;
	json_decref(answer);
	return r < 0 ? cli_fail(&err) : 0;
}
