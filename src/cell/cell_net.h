/* cell_net.h - the addresses of a cell's private network.
 *
 * Every address is local there.  Names that a rule mentions resolve to synthetic addresses: number
 * I of the table is CELL_NET_BASE4 + I and CELL_NET_PREFIX6::I.  The first CELL_NET_RESERVED are
 * not names.  Neither range is routed on the internet: 198.18.0.0/15 is reserved for benchmarks,
 * fc00::/7 for local use. */
#ifndef CLOISTER_CELL_NET_H
#define CLOISTER_CELL_NET_H

#define CELL_NET_BASE4 0xc6120000u              /* 198.18.0.0 */
#define CELL_NET_PREFIX6 "fd63:6c6f:6973:7465"
#define CELL_NET_RESERVED 16
#define CELL_NET_NAMES_MAX 4096

/* The gate itself: DNS on port 53, HTTP proxy on 3128, SOCKS5 on 1080. */
#define CELL_NET_GATE4 "198.18.0.1"
#define CELL_NET_GATE6 CELL_NET_PREFIX6 "::1"
#define CELL_NET_GATE_NAME "gate.cloister.internal"
#define CELL_NET_PROXY_PORT 3128
#define CELL_NET_SOCKS_PORT 1080
/* Without a policy: a resolver on loopback, port 53, that knows no name. */
#define CELL_NET_NOBODY4 "127.0.0.53"
/* The cell's own addresses, like loopback: not captured. */
#define CELL_NET_CELL4 "198.18.0.2"
#define CELL_NET_CELL6 CELL_NET_PREFIX6 "::2"
/* The machine that the cell runs on, for rules that name it. */
#define CELL_NET_HOST_NAME "host.cloister.internal"
/* The port on the gate's addresses that receives captured connections. */
#define CELL_NET_CAPTURE_PORT 1

/* The gateway to the agent's MCP servers, in plain HTTP on port 80. */
#define CELL_NET_TOOLS_NAME "tools.cloister.internal"

/* In a cell with SSH keys: the socket of the gate's SSH agent. */
#define CELL_NET_SSH_AGENT "/run/cloister/ssh-agent"

/* In the cell, if the gate terminates TLS: the system's bundle and the cell's CA. */
#define CELL_NET_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define CELL_NET_CA "/etc/cloister/ca.crt"      /* the cell's CA alone */
/* In a step of a build, these files are beneath: the image's /etc stays as it is. */
#define CELL_NET_BUILD "/run/cloister"
#endif
