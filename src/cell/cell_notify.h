/* cell_notify.h - shared by supervisor and cloister-notify. */
#ifndef CLOISTER_CELL_NOTIFY_H
#define CLOISTER_CELL_NOTIFY_H

#define CELL_NOTIFY_FD 3                /* cloister-notify: the channel, SOCK_SEQPACKET (ipc.h) */
/* supervisor -> notify: str event ("ask", "budget", "tripwire", "watch", "consequence"), u32 n, n bytes:
 * a JSON object. */
#define CELL_NOTIFY 1
/* notify -> supervisor: str what could not be delivered, after all attempts */
#define CELL_NOTIFY_FAILED 2
#define CELL_NOTIFY_DATA_MAX (64 * 1024)

/* The path of the operator's notify.yaml: in cloister's folder of XDG_CONFIG_HOME or ~/.config, for
 * root in /etc/cloister.  The caller frees it; NULL: there is no such folder. */
char *cell_notify_file(void);
#endif
