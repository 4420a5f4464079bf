/* loop_files.c - tests of watched files in a loop. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "loop/loop.h"
#include "test.h"

/* A watch that notes its calls in a text: its letter and the name. */
struct noted {
	struct loop *loop;
	struct loop_file file;
	char letter, *text;
	struct loop_file *other;        /* to be unwatched by the call; or NULL */
	bool last;
};

static void
note(void *arg, const char *name)
{
	struct noted *n = arg;
	size_t len = strlen(n->text);

	snprintf(n->text + len, 64 - len, "%c%s ", n->letter, name);
	if (n->other != NULL) {
		loop_unwatch_file(n->loop, n->other);
		/* It may be freed now. */
		memset(n->other, 0, sizeof(*n->other));
	}
	if (n->last)
		loop_quit(n->loop);
}

static void
begin(struct noted *n, struct loop *loop, char *text, char letter, int fd, unsigned events)
{
	*n = (struct noted){ .loop = loop, .letter = letter, .text = text,
	                     .file = { .changed = note, .arg = n } };
	CHECK_OK(loop_watch_file(loop, &n->file, fd, events, NULL));
}

struct lab {
	char text[64];
	int folder;
	struct loop *loop;
};

static void
lab_free(struct lab *lab)
{
	close(lab->folder);
	loop_free(lab->loop);
}

static void
lab_make(struct lab *lab)
{
	*lab = (struct lab){ .folder = open(test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	CHECK(lab->folder >= 0);
	CHECK_OK(loop_new(&lab->loop, NULL));
}

static int
make(const struct lab *lab, const char *name)
{
	int fd = openat(lab->folder, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	return fd;
}

TEST(loop_files_report_requested_events)
{
	OWN(lab_free) struct lab lab;
	struct noted folder, file, written;

	lab_make(&lab);
	OWN(closep) int one = make(&lab, "one");

	begin(&folder, lab.loop, lab.text, 'f', lab.folder, LOOP_FILE_CREATED);
	begin(&file, lab.loop, lab.text, 'm', one, LOOP_FILE_MODIFIED);
	CHECK(write(one, "x", 1) == 1);
	close(make(&lab, "two"));
	begin(&written, lab.loop, lab.text, 'w', lab.folder, LOOP_FILE_WRITTEN);
	close(make(&lab, "two"));
	written.last = true;
	CHECK_OK(loop_run(lab.loop, NULL));
	/* Both watches of the folder get its events: they are one watch of the kernel's. */
	CHECK(strncmp(lab.text, "m ftwo ", 7) == 0 || strncmp(lab.text, "m wtwo ", 7) == 0);
	CHECK(strstr(lab.text, "wtwo") != NULL);
}

TEST(loop_files_can_be_removed_by_each_other)
{
	OWN(lab_free) struct lab lab;
	struct noted a, b, c;

	lab_make(&lab);
	OWN(closep) int one = make(&lab, "one");

	begin(&a, lab.loop, lab.text, 'a', one, LOOP_FILE_MODIFIED);
	begin(&b, lab.loop, lab.text, 'b', one, LOOP_FILE_MODIFIED);
	begin(&c, lab.loop, lab.text, 'c', one, LOOP_FILE_MODIFIED);
	/* The others are called after c. */
	c.other = &b.file;
	c.last = true;
	CHECK(write(one, "x", 1) == 1);
	CHECK_OK(loop_run(lab.loop, NULL));
	CHECK_STR(lab.text, "c a ");
	CHECK(a.file.watch != 0);
}

TEST(loop_files_that_are_shared_stay_watched)
{
	OWN(lab_free) struct lab lab;
	struct noted a, b, folder;

	lab_make(&lab);
	OWN(closep) int one = make(&lab, "one");

	begin(&a, lab.loop, lab.text, 'a', one, LOOP_FILE_MODIFIED);
	begin(&folder, lab.loop, lab.text, 'f', lab.folder, LOOP_FILE_CREATED);
	begin(&b, lab.loop, lab.text, 'b', one, LOOP_FILE_MODIFIED);
	loop_unwatch_file(lab.loop, &b.file);
	loop_unwatch_file(lab.loop, &b.file);
	folder.last = true;
	CHECK(write(one, "x", 1) == 1);
	close(make(&lab, "two"));
	CHECK_OK(loop_run(lab.loop, NULL));
	CHECK_STR(lab.text, "a ftwo ");
}
