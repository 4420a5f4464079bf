/* cell_net.h - the addresses of a cell's own little internet.
 *
 * Every address is local in there.  Names that a rule mentions resolve to synthetic
 * addresses, number I of the table being CELL_NET_BASE4 + I and CELL_NET_PREFIX6::I; the
 * first CELL_NET_RESERVED are not names.  Both ranges are routed nowhere in the world:
 * 198.18.0.0/15 is set aside for benchmarks, fc00::/7 for local use. */
#ifndef CLOISTER_CELL_NET_H
#define CLOISTER_CELL_NET_H

#define CELL_NET_BASE4 0xc6120000u              /* 198.18.0.0 */
#define CELL_NET_PREFIX6 "fd63:6c6f:6973:7465"
#define CELL_NET_RESERVED 16
#define CELL_NET_NAMES_MAX 4096

/* The gate itself: resolver on port 53, HTTP proxy on 3128, SOCKS5 on 1080. */
#define CELL_NET_GATE4 "198.18.0.1"
#define CELL_NET_GATE6 CELL_NET_PREFIX6 "::1"
#define CELL_NET_GATE_NAME "gate.cloister.internal"
#define CELL_NET_PROXY_PORT 3128
#define CELL_NET_SOCKS_PORT 1080
/* Without a policy: a resolver on loopback, port 53, to which no name is known. */
#define CELL_NET_NOBODY4 "127.0.0.53"
/* The cell's own, as loopback is: not captured. */
#define CELL_NET_CELL4 "198.18.0.2"
#define CELL_NET_CELL6 CELL_NET_PREFIX6 "::2"
/* The machine that the cell runs on, for rules that name it. */
#define CELL_NET_HOST_NAME "host.cloister.internal"
/* Where captured connections arrive, on the gate's addresses. */
#define CELL_NET_CAPTURE_PORT 1

/* In the cell, with keys for SSH: where the gate answers as their agent. */
#define CELL_NET_SSH_AGENT "/run/cloister/ssh-agent"

/* In the cell, when TLS is ended by the gate: the system's bundle and the cell's CA. */
#define CELL_NET_BUNDLE "/etc/ssl/certs/ca-certificates.crt"
#define CELL_NET_CA "/etc/cloister/ca.crt"      /* the cell's CA alone */
#endif
