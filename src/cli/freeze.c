/* freeze.c - `cloister freeze` and `thaw`: cells stop where they are, and go on. */
#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

static int
ask(const char *word, uint32_t type, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct cell_entry entry;
	OWN(closep) int fd = cli_connect(word, &entry, err);
	const char *text;
	uint32_t code;
	int r;

	if (fd < 0)
		return fd;
	r = cli_ask(fd, type, err);
	if (r == 0)
		r = ipc_receive(fd, &message, err);
	if (r < 0)
		return err_set(err, EPIPE, "cell '%s' has just ended", word);
	if (message.type == CONTROL_DONE)
		return 0;
	if (message.type == CONTROL_REFUSED && buf_get_u32(&message.body, &code) == 0 && code != 0 &&
	    buf_get_str(&message.body, &text) == 0)
		return err_set(err, (int)code, "%s", text);
	return err_set(err, EBADMSG, "the cell's supervisor is of another version");
}

static int
each(int argc, char **argv, uint32_t type)
{
	struct err err = {0};
	int rest, status = 0;

	if (cli_parse(cli_no_options, argc, argv, false, NULL, NULL, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("which cell? cloister %s CELL...", argv[0]);
	for (int i = rest; i < argc; i++)
		if (ask(argv[i], type, &err) < 0)
			status = cli_fail(&err);
	return status;
}

int
cmd_freeze(int argc, char **argv)
{
	return each(argc, argv, CONTROL_FREEZE);
}

int
cmd_thaw(int argc, char **argv)
{
	return each(argc, argv, CONTROL_THAW);
}
