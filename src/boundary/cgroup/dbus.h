/* dbus.h - the one D-Bus call that cloister makes: systemd's StartTransientUnit for a scope.
 *
 * libsystemd would do this too, and bring its dependencies into every static program.  A call is a few hundred
 * bytes, so they are written here.  Specification: https://dbus.freedesktop.org/doc/dbus-specification.html */
#ifndef CLOISTER_DBUS_H
#define CLOISTER_DBUS_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

#define DBUS_MESSAGE_MAX (64 * 1024)

/* Append the message that says hello to a bus, with this SERIAL. */
void dbus_put_hello(struct buf *b, uint32_t serial);
/* Append the call that moves PID into the new scope NAME, which its user may divide.  VIA_BUS: a bus carries it;
 * otherwise the socket is the manager's own. */
void dbus_put_scope(struct buf *b, uint32_t serial, const char *name, pid_t pid, bool via_bus);

/* Both wait for at most the socket's timeout.  0, or a negative errno. */
int dbus_log_in(int socket, uid_t uid);
/* Read messages until there is an answer to a call; -EREMOTEIO if that is an error. */
int dbus_await_answer(int socket);
#endif
