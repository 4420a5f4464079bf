/* state_commit.c - commits a folder of changes to a state, as a cell's end does.
 *
 *   state_commit NAME BRANCH BASE FOLDER [CELL [GUARDS]]   prints the commit, and a line "PATH: WHY" for each refused change
 *   state_commit --checkout NAME COMMIT             prints the folder with its files
 *   state_commit --reads NAME COMMIT FOLDER         asks a worker that reads FOLDER for these files, and prints its error; then
 *                                                   prints the folder with the files, from another worker
 *   state_commit --hold NAME BRANCH CELL            is the branch's writer until its input ends; prints "held" */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "state/state_parts.h"

static int
fail(const struct err *err)
{
	fprintf(stderr, "%s\n", err->text);
	return 1;
}

static int
commit(char **argv, int argc)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(state_close) struct state state = {0};
	const struct state_author author = { .subject = "A test's commit", .reason = "end", .who = "agent",
	                                     .cell = argc > 5 ? argv[5] : "c0ffee", .timeline = "cell/c0ffee", .timeline_n = 7 };
	OWN(closep) int changes = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err err = {0};

	if (state_open(argv[1], &state, &err) < 0)
		return fail(&err);
	state.guards = argc > 6 ? argv[6] : NULL;
	if (state_commit(&state, argv[2], argv[3], changes, &author, &c, &err) < 0)
		return fail(&err);
	printf("%s\n", c.commit);
	for (size_t i = 0; i < c.n_listed; i++)
		printf("%s: %s\n", c.refused[i].path, c.refused[i].why);
	if (c.aside[0] != '\0')
		printf("aside %s\n", c.aside);
	if (c.review[0] != '\0')
		printf("review %s\n", c.review);
	if (c.flags[0] != '\0')
		printf("flags %s\n", c.flags);
	return 0;
}

static int
checkout(char **argv)
{
	OWN(state_close) struct state state = {0};
	OWN(freep) char *path = NULL;
	struct err err = {0};

	if (state_open(argv[2], &state, &err) < 0 || state_checkout(&state, argv[3], &path, &err) < 0)
		return fail(&err);
	printf("%s\n", path);
	return 0;
}

static int
checkout_while_it_reads(char **argv)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(closep) int folder = open(argv[4], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(state_close) struct state state = {0};
	OWN(freep) char *path = NULL;
	OWN(buf_free) struct buf b = {0};
	struct err err = {0};

	if (state_open(argv[2], &state, &err) < 0 || state_worker_start(&state, folder, -1, &err) < 0)
		return fail(&err);
	ipc_begin(&b, STATE_ASK_CHECKOUT);
	buf_put_str(&b, argv[3]);
	puts(state_ask(&state, &b, NULL, NULL, &done, &err) < 0 ? err.text : "done");
	if (state_checkout(&state, argv[3], &path, &err) < 0)
		return fail(&err);
	puts(path);
	return 0;
}

static int
hold(char **argv)
{
	OWN(state_close) struct state state = {0};
	OWN(closep) int lock = -1;
	struct err err = {0};
	char byte;

	if (state_open(argv[2], &state, &err) < 0)
		return fail(&err);
	lock = state_lock_writer(&state, argv[3], argv[4], NULL, &err);
	if (lock < 0)
		return fail(&err);
	puts("held");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "--checkout") == 0)
		return checkout(argv);
	if (argc == 5 && strcmp(argv[1], "--reads") == 0)
		return checkout_while_it_reads(argv);
	if (argc == 5 && strcmp(argv[1], "--hold") == 0)
		return hold(argv);
	return argc >= 5 ? commit(argv, argc) : 2;
}
