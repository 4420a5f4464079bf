/* own.h - owned locals: released when they go out of scope. */
#ifndef CLOISTER_OWN_H
#define CLOISTER_OWN_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OWN(freep) char *text = NULL; frees text on every exit from its scope. */
#define OWN(release) __attribute__((cleanup(release)))

/* Hand an owned pointer or descriptor over: the local no longer releases it. */
#define TAKE(p) __extension__({ __typeof__(p) taken_ = (p); (p) = NULL; taken_; })
#define TAKE_FD(fd) __extension__({ int taken_ = (fd); (fd) = -1; taken_; })

/* Defines NAME for OWN() locals of TYPE, which RELEASE takes by value. */
#define OWN_BY(name, type, release) \
	static inline void name(type *p) { (void)release(*p); }

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void
freep(void *p)
{
	free(*(void **)p);
}

static inline void
closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* For a secret. */
static inline void
wipe_text(char **text)
{
	if (*text != NULL)
		explicit_bzero(*text, strlen(*text));
	free(*text);
	*text = NULL;
}

/* For a member of a struct.  It is open if it is above 0, so that {0} is closed, as -1 is: in all
 * processes of cloister, descriptor 0 is standard input (stdio_fill_closed). */
static inline void
close_fd(int *fd)
{
	if (*fd > 0)
		close(*fd);
	*fd = 0;
}

static inline void
closedirp(DIR **dir)
{
	if (*dir != NULL)
		closedir(*dir);
}

static inline void
fclosep(FILE **file)
{
	if (*file != NULL)
		fclose(*file);
}
#endif
