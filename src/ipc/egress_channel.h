/* egress_channel.h - messages between gate and courier, over a mux.
 *
 * The gate opens streams, and the courier answers on them.  The gate may be compromised: the
 * courier believes it about what the agent wants, never about what the agent may do.  In all frames
 * a name is canonical (http_authority_parse), and an address is as inet_ntop() writes it, without
 * brackets.  Exactly one of the two is "". */
#ifndef CLOISTER_EGRESS_CHANNEL_H
#define CLOISTER_EGRESS_CHANNEL_H
#include "ipc/mux.h"

enum egress_frame {
	/* gate -> courier: a DNS query.  str name, u32 type.  EGRESS_RESOLVED answers it and ends
	 * the stream. */
	EGRESS_RESOLVE = MUX_TYPES,
	/* courier -> gate: u32 permitted (0: refused and recorded) */
	EGRESS_RESOLVED,

	/* gate -> courier: a new connection.  u32 EGRESS_FROM(); str name, as resolved or as given
	 * to the proxy ("" for a bare address); str address ("" if there is a name); u32 port; u32
	 * enum egress_looks; str sni.  Answered with EGRESS_ROUTED. */
	EGRESS_ROUTE,
	/* courier -> gate: u32 enum egress_routed; if refused, str reason and str hint (what to
	 * do), one sentence each, else "".  With EGRESS_TUNNEL, EGRESS_POSTGRES and EGRESS_REDIS
	 * the stream stays open and carries the connection's bytes, from the very first one (except
	 * logins).  It ends when both sides have sent EGRESS_END, or one of them EGRESS_RESET.  Any
	 * other answer ends the stream. */
	EGRESS_ROUTED,

	/* gate -> courier: a request.
	 *   str name, str address, u32 port of its connection, u32 EGRESS_FROM(), all as in EGRESS_ROUTE;
	 *   u32 version (10, 11, 20); u32 flags (EGRESS_HAS_BODY exactly if head.length is not 0);
	 *   with EGRESS_HAS_KEY, the EGRESS_KEY bytes of the key that the client proved to have;
	 *   the head (http/http_head.h).
	 * With EGRESS_HAS_BODY, MUX_DATA follows and EGRESS_END ends the request.  Without it the
	 * head is the whole request, and no EGRESS_END is sent.  `expect: 100-continue` stays among
	 * the fields: the courier sends the 100. */
	EGRESS_REQUEST,
	/* courier -> gate: u32 flags, then the head.  1xx heads (not 101) may come before the last
	 * one.  With EGRESS_HAS_BODY, MUX_DATA and EGRESS_END follow.  Without it the head is the
	 * whole response, whatever its length (as to HEAD), and no EGRESS_END is sent.  After 101
	 * the stream carries raw bytes both ways, as a tunnel. */
	EGRESS_RESPONSE,
	/* either way: no more bytes on this side, then the trailers (http_fields_encode; always
	 * present, n = 0 if there are none).  A stream ends when both sides have ended it, or with
	 * EGRESS_RESET. */
	EGRESS_END,
	/* either way: u32 enum egress_reset: the stream is torn down and nothing follows. */
	EGRESS_RESET,

	/* gate -> courier, on stream 0: the gate itself refused something that it could not parse;
	 * the courier records it.
	 *   u32 enum egress_note, u32 how often (at least 1), u32 via, str name, str address (both "" if
	 *   not known), u32 port (0 if not known), u32 status (0: none), str reason (one sentence, under
	 *   EGRESS_REASON_MAX). */
	EGRESS_NOTE,

	/* gate -> courier.  On a stream routed as EGRESS_POSTGRES, once and first: the login
	 * (pg_start_encode).  The client's bytes behind the login follow as in a tunnel; the
	 * courier answers with the server's bytes, or an error.  As EGRESS_REDIS, in its place
	 * among the bytes: redis_login_encode.  The gate sends nothing on the stream until
	 * EGRESS_LOGGED. */
	EGRESS_LOGIN,
	/* gate -> courier, instead of EGRESS_LOGIN, as EGRESS_POSTGRES: u32 pid, then the key:
	 * cancel the query that has them. */
	EGRESS_CANCEL,
	/* courier -> gate, as EGRESS_REDIS: the login was sent to the server; empty. */
	EGRESS_LOGGED,
	/* The SSH agent; fields are SSH's own (ssh/ssh_wire.h).  The answer ends the stream. gate
	 * -> courier: list the keys; empty. */
	EGRESS_SSH_LIST,
	/* courier -> gate: u32 n, then n times: string key, string comment */
	EGRESS_SSH_KEYS,
	/* gate -> courier: sign.  u32 enum egress_ssh, string key, string algorithm, then:
	 *   EGRESS_SSH_LOGIN: string session, string user, bool hostbound; then the client's description
	 *     of its session ("" each and false if none): string session, string host key,
	 *     string signature, bool forwarded;
	 *   EGRESS_SSH_TEXT: string purpose ("git"), string hash ("sha512"), string digest. */
	EGRESS_SSH_SIGN,
	/* courier -> gate: string signature; "": refused, and recorded */
	EGRESS_SSH_SIGNED,

	/* gate -> courier, at most once, for a complete request or one whose client is not read
	 * from: the client has closed its side of the connection.  It may be gone, or only wait for
	 * the response; empty. */
	EGRESS_SHUT,
};
enum egress_ssh { EGRESS_SSH_LOGIN, EGRESS_SSH_TEXT };
#define EGRESS_REASON_MAX 384

enum egress_note { EGRESS_NOTE_HTTP, EGRESS_NOTE_DNS, EGRESS_NOTE_TCP, EGRESS_NOTE_SSH };

enum egress_via { EGRESS_TRANSPARENT, EGRESS_CONNECT, EGRESS_SOCKS };
/* How a connection came, and the port of the cell's side of it; 0: unknown. */
#define EGRESS_FROM(via, port) ((uint32_t)(port) << 16 | (uint32_t)(via))
#define EGRESS_FROM_VIA(from) ((from) & 0xffff)
#define EGRESS_FROM_PORT(from) ((uint16_t)((from) >> 16))
/* The protocol of the first bytes.  EGRESS_LOOKS_UNKNOWN: none or too few have arrived; the courier
 * answers EGRESS_LOOK unless only a raw TCP rule can apply.  A client that then stays silent (its
 * server speaks first), or sends no more, is EGRESS_LOOKS_OTHER. */
enum egress_looks { EGRESS_LOOKS_UNKNOWN, EGRESS_LOOKS_TLS, EGRESS_LOOKS_HTTP,
                    EGRESS_LOOKS_OTHER };
enum egress_routed {
	EGRESS_REFUSED,                 /* answer with a TLS alert or a reset */
	EGRESS_LOOK,                    /* read its first bytes and ask again */
	EGRESS_SPEAK,                   /* terminate TLS, if it is TLS, and speak HTTP */
	EGRESS_TUNNEL,                  /* raw; the courier has connected to the peer */
	EGRESS_LOOK_BRIEFLY,            /* as EGRESS_LOOK, with a short timeout */
	EGRESS_SPEAK_ASKING,            /* as EGRESS_SPEAK, for TLS only; request a client certificate,
	                                 * which is optional */
	/* The courier adds a credential, so the gate parses the beginning: terminate TLS, if it is
	 * TLS, and keep the stream (see EGRESS_LOGIN). */
	EGRESS_POSTGRES,                /* the courier has not connected yet */
	EGRESS_REDIS,                   /* the courier has connected to the peer */
};
enum egress_flags { EGRESS_HAS_BODY = 1, EGRESS_HAS_KEY = 2 };
#define EGRESS_KEY 32                   /* SHA-256 of a certificate's public key */
/* EGRESS_RESET_DONE, from the courier after its whole response: the response is valid, and the rest
 * of the request is not needed. */
enum egress_reset { EGRESS_RESET_CANCEL, EGRESS_RESET_UPSTREAM, EGRESS_RESET_POLICY,
                    EGRESS_RESET_TIMEOUT, EGRESS_RESET_PROTOCOL, EGRESS_RESET_DONE };
#endif
