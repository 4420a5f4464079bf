/* host.h - the helper of the judge: what Python cannot do by itself, outside.
 *
 * The holders print one line when what they hold is there, and keep it until
 * their standard input ends. */
#ifndef ESCAPE_HOST_H
#define ESCAPE_HOST_H

int host_launch(int argc, char **argv);
int host_world(int argc, char **argv);
int host_inject(int argc, char **argv);

/* Wait for the end of standard input. */
void host_hold(void);
int host_fail(const char *what);
/* Run the calling process with a session keyring of its own that holds a key. */
int host_session_key(const char *name, const char *text);
#endif
