/* egress_channel.h - what gate and courier say to each other, over a mux.
 *
 * The gate opens streams; the courier answers on them.  The gate is taken for
 * compromised: the courier believes it only about what the agent wants, never about
 * what the agent may.
 *
 * In all frames a name is canonical (http_authority_parse) and an address is as
 * inet_ntop() writes it, without brackets; exactly one of the two is "". */
#ifndef CLOISTER_EGRESS_CHANNEL_H
#define CLOISTER_EGRESS_CHANNEL_H
#include "ipc/mux.h"

enum egress_frame {
	/* gate -> courier: somebody asks for a name.  str name, u32 type.
	 * Answered with EGRESS_RESOLVED, with which both forget the stream. */
	EGRESS_RESOLVE = MUX_TYPES,
	/* courier -> gate: u32 permitted (0: refused and recorded) */
	EGRESS_RESOLVED,

	/* gate -> courier: a new connection.  u32 how it came (enum egress_via), str name
	 * (as resolved or as given to the proxy; "" for a bare address), str address ("" if
	 * there is a name), u32 port, u32 what it looks like (enum egress_looks), str sni.
	 * Answered with EGRESS_ROUTED. */
	EGRESS_ROUTE,
	/* courier -> gate: u32 enum egress_routed; str reason, str hint (what to do; one sentence
	 * each, when refused, else "").  With EGRESS_TUNNEL, EGRESS_POSTGRES and EGRESS_REDIS the stream stays and
	 * carries the connection's bytes, from its very first one (but for logins), until both
	 * sides have sent EGRESS_END or one of them EGRESS_RESET; with any other answer both
	 * forget the stream. */
	EGRESS_ROUTED,

	/* gate -> courier: str name, str address, u32 port of the connection that it came
	 * on (as in EGRESS_ROUTE), u32 via, u32 version (10, 11, 20), u32 flags
	 * (EGRESS_HAS_BODY exactly if head.length is not 0), with EGRESS_HAS_KEY the
	 * EGRESS_KEY bytes of the key that the client proved to have, then the head
	 * (http/http_head.h).  With EGRESS_HAS_BODY, MUX_DATA follows and EGRESS_END ends the
	 * request; without it the head was all, and no EGRESS_END is sent.  `expect:
	 * 100-continue` stays among the fields: the 100 comes from the courier. */
	EGRESS_REQUEST,
	/* courier -> gate: u32 flags, then the head.  1xx heads (not 101) may come before the
	 * last one.  With EGRESS_HAS_BODY, MUX_DATA and EGRESS_END follow; without it the head
	 * was all, whatever its length says (as to HEAD), and no EGRESS_END is sent.
	 * After 101 the stream carries raw bytes both ways, as a tunnel. */
	EGRESS_RESPONSE,
	/* either way: no more bytes on this side; the trailers (http_fields_encode; always
	 * there, n = 0 if there are none).  A stream is over when both sides have ended, or
	 * with EGRESS_RESET. */
	EGRESS_END,
	/* either way: u32 enum egress_reset: torn down, nothing follows, both forget the
	 * stream. */
	EGRESS_RESET,

	/* gate -> courier, on stream 0: something was refused by the gate itself, because it
	 * cannot be read, and is to be recorded.  u32 enum egress_note, u32 how often (at least
	 * 1), u32 via, str name, str address (both "" if they are not known), u32 port (0
	 * likewise), u32 status (0: none), str reason (one sentence, under EGRESS_REASON_MAX). */
	EGRESS_NOTE,

	/* gate -> courier.  On a stream that was routed as EGRESS_POSTGRES, once and first: who
	 * logs in (pg_start_encode); its bytes follow as in a tunnel, beginning behind the login,
	 * and answers with the server's, or an error.  As EGRESS_REDIS, in its place among the
	 * bytes: redis_login_encode; nothing is sent on the stream until EGRESS_LOGGED. */
	EGRESS_LOGIN,
	/* gate -> courier, instead of it, as EGRESS_POSTGRES: u32 pid, then the key: the query that
	 * has them is to be cancelled. */
	EGRESS_CANCEL,
	/* courier -> gate, as EGRESS_REDIS: the login has gone on; empty. */
	EGRESS_LOGGED,
	/* The SSH agent; fields are SSH's own (ssh/ssh_wire.h).  With the answer, both forget the
	 * stream.
	 *
	 * gate -> courier: which keys are there?  Nothing. */
	EGRESS_SSH_LIST,
	/* courier -> gate: u32 n, then n times: string key, string comment */
	EGRESS_SSH_KEYS,
	/* gate -> courier: sign.  u32 enum egress_ssh, string key, string algorithm, then of
	 *   EGRESS_SSH_LOGIN: string session, string user, bool hostbound; what the client said
	 *     of its session ("" each and false if nothing): string session, string host key,
	 *     string signature, bool forwarded;
	 *   EGRESS_SSH_TEXT: string what for ("git"), string hash ("sha512"), string digest. */
	EGRESS_SSH_SIGN,
	/* courier -> gate: string signature; "": refused, and recorded */
	EGRESS_SSH_SIGNED,

	/* gate -> courier, at most once, of a request that is complete, or whose client is not read
	 * from: the client has closed its side of the connection.  It may have gone, or only wait
	 * for its answer; empty. */
	EGRESS_SHUT,
};
enum egress_ssh { EGRESS_SSH_LOGIN, EGRESS_SSH_TEXT };
#define EGRESS_REASON_MAX 384

enum egress_note { EGRESS_NOTE_HTTP, EGRESS_NOTE_DNS, EGRESS_NOTE_TCP, EGRESS_NOTE_SSH };

enum egress_via { EGRESS_TRANSPARENT, EGRESS_CONNECT, EGRESS_SOCKS };
/* What the first bytes are.  EGRESS_LOOKS_UNKNOWN: they have not come yet, or too few of them;
 * the courier says EGRESS_LOOK unless only a raw TCP rule can apply.  A client that stays silent
 * after that (its server speaks first), or sends no more, is EGRESS_LOOKS_OTHER. */
enum egress_looks { EGRESS_LOOKS_UNKNOWN, EGRESS_LOOKS_TLS, EGRESS_LOOKS_HTTP,
                    EGRESS_LOOKS_OTHER };
enum egress_routed {
	EGRESS_REFUSED,                 /* TLS alert or reset */
	EGRESS_LOOK,                    /* read its first bytes and ask again */
	EGRESS_SPEAK,                   /* end TLS, if it is, and speak HTTP with it */
	EGRESS_TUNNEL,                  /* raw: the courier has connected to the peer */
	EGRESS_LOOK_BRIEFLY,            /* as EGRESS_LOOK, and do not wait long for them */
	EGRESS_SPEAK_ASKING,            /* as EGRESS_SPEAK, of what is TLS; the client is asked for a
	                                 * certificate, and need not have one */
	/* A credential goes with it, so the gate reads how it begins: end TLS, if it is, and the
	 * stream stays (see EGRESS_LOGIN). */
	EGRESS_POSTGRES,                /* nobody has connected yet */
	EGRESS_REDIS,                   /* the courier has connected to the peer */
};
enum egress_flags { EGRESS_HAS_BODY = 1, EGRESS_HAS_KEY = 2 };
#define EGRESS_KEY 32                   /* SHA-256 of a certificate's public key */
/* EGRESS_RESET_DONE, from the courier after its whole answer: it stands, but the rest of
 * the request is not wanted. */
enum egress_reset { EGRESS_RESET_CANCEL, EGRESS_RESET_UPSTREAM, EGRESS_RESET_POLICY,
                    EGRESS_RESET_TIMEOUT, EGRESS_RESET_PROTOCOL, EGRESS_RESET_DONE };
#endif
