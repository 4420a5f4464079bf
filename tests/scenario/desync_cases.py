"""Requests that two programs might read differently, as data: test_egress_desync.py sends them.

Each case is all that one connection to HOST says.  FRONT and HIDDEN in it become fresh
words, and what the servers saw of them is what counts:

  refused   nothing of it arrived anywhere; the answer is an error, or no answer
  cut       the head was good and may have arrived, the rest was not: no answer but an error
  passed    it arrived as exactly one request, and was answered
  harmless  any of these

HIDDEN never arrives, and nothing ever arrives at another host.
"""
import struct
from typing import NamedTuple

HOST = "up.example.test"
EVIL = "evil.example.test"      # allowed too, so that only the mismatch can refuse it


class Case(NamedTuple):
    name: str
    data: bytes
    want: str


H = f"Host: {HOST}\r\n".encode()
GET = b"GET /echo?FRONT HTTP/1.1\r\n"
POST = b"POST /echo?FRONT HTTP/1.1\r\n" + H
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
HIDDEN = b"GET /echo?HIDDEN HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n"
CLOSE = b"Connection: close\r\n"


def length(value):
    """A POST whose length is VALUE, and behind it a request that no server should see."""
    return POST + b"Content-Length: " + value + b"\r\n\r\n" + HIDDEN


def coding(line):
    return POST + line + b"\r\n\r\n0\r\n\r\n" + HIDDEN


def field(line):
    return GET + H + CLOSE + line + b"\r\n\r\n"


def target(text, method=b"GET"):
    return method + b" " + text + b" HTTP/1.1\r\n" + H + CLOSE + b"\r\n"


def host(line):
    return GET + line + b"\r\n" + CLOSE + b"\r\n"


def many(want, **cases):
    return [Case(name.replace("_", "-"), data, want) for name, data in cases.items()]


H1 = [
    # ---- controls: what is clear must pass, or the rest proves nothing
    *many("passed",
          get=GET + H + CLOSE + b"\r\n",
          empty_line_first=b"\r\n" + GET + H + CLOSE + b"\r\n",
          old=b"GET /echo?FRONT HTTP/1.0\r\n" + H + b"\r\n",
          body=POST + CLOSE + b"Content-Length: 5\r\n\r\nhello",
          body_like_a_request=POST + CLOSE + b"Content-Length: %d\r\n\r\n" % len(HIDDEN) + HIDDEN,
          chunks_like_a_request=POST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(HIDDEN) +
          HIDDEN + b"\r\n0\r\n\r\n",
          chunked_upper=POST + CLOSE + b"TRANSFER-ENCODING:\tChunked \r\n\r\n005\r\nhello\r\n0\r\n\r\n",
          trailers=POST + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Sum: 1\r\n\r\n",
          behind_close=GET + H + CLOSE + b"\r\n" + HIDDEN,
          blanks_in_value=field(b"X: \t a \tb \t"),
          high_bytes_in_value=field(b"X: \xe4\xff"),
          named_by_connection=GET + H + b"X-Hop: 1\r\nConnection: close, x-hop\r\n\r\n",
          absolute=b"GET https://" + HOST.encode() + b"/echo?FRONT HTTP/1.1\r\n" + H + CLOSE + b"\r\n",
          host_upper=host(b"Host: " + HOST.upper().encode() + b".:443"),
          escapes=target(b"/%65cho?FRONT&%41"),
          dots=target(b"/x/..//../%2e/./echo?FRONT"), lone_percent=target(b"/echo%zz?FRONT"),
          lone_percent_last=target(b"/echo?FRONT%"), raw_bytes=target(b"/echo?FRONT\xe4"),
          raw_utf8=target("/ä/../echo?FRONT".encode()),
          registry_slash=target(b"/@scope%2fname?FRONT"),
          h2c=GET + H + b"Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
          b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
          upgrade_without_connection=field(b"Upgrade: websocket"),
          te_trailers=GET + H + b"TE: gzip, trailers\r\nConnection: close, TE\r\n\r\n"),

    # ---- two lengths, or one that is none
    *many("refused",
          length_and_chunked=coding(b"Content-Length: 4\r\nTransfer-Encoding: chunked"),
          chunked_and_length=coding(b"Transfer-Encoding: chunked\r\nContent-Length: 150"),
          chunked_and_no_length=coding(b"Transfer-Encoding: chunked\r\nContent-Length: 0"),
          lengths_differ=length(b"0\r\nContent-Length: 93"),
          lengths_same=length(b"0\r\nContent-Length: 0"),
          length_list=length(b"0, 93"), length_list_same=length(b"0, 0"),
          length_comma=length(b"0,"), length_plus=length(b"+0"), length_minus=length(b"-0"),
          length_negative=length(b"-1"), length_hex=length(b"0x0"), length_octal=length(b"00"),
          length_words=length(b"0 93"), length_float=length(b"0.0"), length_exponent=length(b"0e9"),
          length_quoted=length(b'"0"'), length_empty=length(b""), length_letters=length(b"abc"),
          length_nul=length(b"0\0"), length_vt=length(b"\x0b0"), length_superscript=length(b"\xb2"),
          length_wraps_64=length(b"18446744073709551616"), length_wraps_32=length(b"4294967296000000000000"),
          length_space_colon=coding(b"Content-Length : 0"), length_tab_colon=coding(b"Content-Length\t: 0"),
          length_leading_space=coding(b" Content-Length: 0"), length_folded=coding(b"Content-Length:\r\n 0"),
          length_underscore=coding(b"Content_Length: 93"), length_nul_name=coding(b"Content-Length\0: 0"),
          length_behind_cr=coding(b"X: y\rContent-Length: 0"), length_behind_lf=coding(b"X: y\nContent-Length: 0"),
          length_named=coding(b"Content-Length: 0\r\nConnection: content-length")),

    # ---- chunked, or not quite
    *many("refused",
          coding_twice=coding(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
          coding_and_other=coding(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x"),
          coding_identity_first=coding(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked"),
          coding_identity=coding(b"Transfer-Encoding: identity"), coding_gzip=coding(b"Transfer-Encoding: gzip"),
          coding_gzip_chunked=coding(b"Transfer-Encoding: gzip, chunked"),
          coding_chunked_twice=coding(b"Transfer-Encoding: chunked, chunked"),
          coding_chunked_identity=coding(b"Transfer-Encoding: chunked, identity"),
          coding_x=coding(b"Transfer-Encoding: xchunked"), coding_short=coding(b"Transfer-Encoding: chunke"),
          coding_comma_first=coding(b"Transfer-Encoding: ,chunked"),
          coding_comma_last=coding(b"Transfer-Encoding: chunked,"), coding_empty=coding(b"Transfer-Encoding:"),
          coding_quoted=coding(b'Transfer-Encoding: "chunked"'), coding_parameter=coding(b"Transfer-Encoding: chunked;x=1"),
          coding_space=coding(b"Transfer-Encoding : chunked"), coding_vt=coding(b"Transfer-Encoding: \x0bchunked"),
          coding_ff=coding(b"Transfer-Encoding: chunked\x0c"), coding_nul=coding(b"Transfer-Encoding: chunked\0"),
          coding_high=coding(b"Transfer-Encoding: chunked\x85"), coding_folded=coding(b"Transfer-Encoding:\r\n chunked"),
          coding_folded_x=coding(b"X: y\r\n Transfer-Encoding: chunked"),
          coding_leading_space=coding(b" Transfer-Encoding: chunked"),
          coding_underscore=coding(b"Transfer_Encoding: chunked"), coding_vt_name=coding(b"Transfer-Encoding\x0b: chunked"),
          coding_behind_cr=coding(b"X: y\rTransfer-Encoding: chunked"),
          coding_behind_lf=coding(b"X: y\nTransfer-Encoding: chunked"),
          coding_named=coding(b"Transfer-Encoding: chunked\r\nConnection: transfer-encoding"),
          coding_old=b"POST /echo?FRONT HTTP/1.0\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN),

    # ---- chunks
    *many("cut",
          chunk_extension=CHUNKED + b"5;a=b\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_extension_lf=CHUNKED + b"5;\nxx\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_last_extension=CHUNKED + b"0;a\r\n\r\n" + HIDDEN,
          chunk_hex_prefix=CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_plus=CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_minus=CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_space_before=CHUNKED + b" 5\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_space_behind=CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_empty=CHUNKED + b"\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_wraps=CHUNKED + b"10000000000000005\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_negative=CHUNKED + b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_zeros=CHUNKED + b"0" * 40 + b"5\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_lf=CHUNKED + b"5\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_cr=CHUNKED + b"5\rhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_lf_behind=CHUNKED + b"5\r\nhello\n0\r\n\r\n" + HIDDEN,
          chunk_nothing_behind=CHUNKED + b"5\r\nhello0\r\n\r\n" + HIDDEN,
          chunk_too_short=CHUNKED + b"4\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_too_long=CHUNKED + b"6\r\nhello\r\n0\r\n\r\n" + HIDDEN,
          chunk_last_lf=CHUNKED + b"0\n\n" + HIDDEN,
          chunk_last_request=CHUNKED + b"0\r\n" + HIDDEN,
          trailer_lf=CHUNKED + b"0\r\nX: y\n\r\n" + HIDDEN,
          trailer_folded=CHUNKED + b"0\r\nX: y\r\n z\r\n\r\n" + HIDDEN,
          trailer_length=CHUNKED + b"0\r\nContent-Length: 93\r\n\r\n" + HIDDEN,
          trailer_coding=CHUNKED + b"0\r\nTransfer-Encoding: chunked\r\n\r\n" + HIDDEN,
          trailer_host=CHUNKED + b"0\r\nHost: " + EVIL.encode() + b"\r\n\r\n" + HIDDEN,
          trailer_authorization=CHUNKED + b"0\r\nAuthorization: x\r\n\r\n" + HIDDEN,
          trailer_connection=CHUNKED + b"0\r\nConnection: close\r\n\r\n" + HIDDEN),

    # ---- lines and fields
    *many("refused",
          bare_lf=b"GET /echo?FRONT HTTP/1.1\n" + H.replace(b"\r", b"") + b"\n" + HIDDEN,
          bare_lf_end=GET + H + b"\n" + HIDDEN, bare_lf_field=GET + H.replace(b"\r", b"") + b"\r\n" + HIDDEN,
          bare_cr_end=GET + H + b"\r\r\n\r\n", bare_cr=field(b"X: a\rY: b"), cr_only=(GET + H).replace(b"\n", b"") + b"\n\r\n",
          nul_in_value=field(b"X: a\0b"), nul_in_name=field(b"X\0: a"), del_in_value=field(b"X: a\x7f"),
          control_in_value=field(b"X: \x01"), folded=field(b"X: a\r\n b"), folded_tab=field(b"X: a\r\n\tb"),
          space_colon=field(b"X : a"), tab_colon=field(b"X\t: a"), no_name=field(b": a"), no_colon=field(b"X"),
          space_in_name=field(b"X Y: a"), high_name=field(b"X\xe4: a"), quoted_name=field(b'"X": a'),
          first_field_space=GET + b" X: a\r\n" + H + b"\r\n", two_types=field(b"Content-Type: a/b\r\nContent-Type: c/d"),
          two_codings=field(b"Content-Encoding: gzip\r\nContent-Encoding: br"),
          two_authorizations=field(b"Authorization: a\r\nAuthorization: b"),
          expect_other=POST + b"Expect: x\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
          expect_twice=POST + b"Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n" + HIDDEN,
          connection_names_host=field(b"Connection: host"), connection_names_cookie=field(b"Connection: cookie"),
          connection_names_authorization=field(b"Connection: authorization"), connection_odd=field(b"Connection: a b"),
          upgrade_with_body=GET + H + b"Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 93\r\n\r\n" + HIDDEN,
          empty_lines_first=b"\r\n\r\n" + GET + H + b"\r\n"),

    # ---- the request line
    *many("refused",
          version_09=b"GET /echo?FRONT\r\n\r\n", version_20=b"GET /echo?FRONT HTTP/2.0\r\n" + H + b"\r\n",
          version_12=b"GET /echo?FRONT HTTP/1.2\r\n" + H + b"\r\n", version_110=b"GET /echo?FRONT HTTP/1.10\r\n" + H + b"\r\n",
          version_lower=b"GET /echo?FRONT http/1.1\r\n" + H + b"\r\n", version_space=b"GET /echo?FRONT HTTP/1.1 \r\n" + H + b"\r\n",
          version_tab=b"GET /echo?FRONT\tHTTP/1.1\r\n" + H + b"\r\n", two_spaces=b"GET  /echo?FRONT HTTP/1.1\r\n" + H + b"\r\n",
          space_first=b" GET /echo?FRONT HTTP/1.1\r\n" + H + b"\r\n", space_in_target=target(b"/echo?FRONT x"),
          tab_in_target=target(b"/echo?FRONT\tx"), lower_method=target(b"/echo?FRONT", b"get"),
          odd_method=target(b"/echo?FRONT", b"GE\0T"), colon_method=target(b"/echo?FRONT", b"GET:"),
          long_method=target(b"/echo?FRONT", b"A" * 50), junk_first=b"\0\1" + GET + H + b"\r\n",
          preface=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + GET + H + b"\r\n",
          trace_body=b"TRACE /echo?FRONT HTTP/1.1\r\n" + H + b"Content-Length: 5\r\n\r\nhello"),

    # ---- targets
    *many("refused",
          no_slash=target(b"echo?FRONT"), star=target(b"*"), query_only=target(b"?FRONT"), fragment=target(b"/echo?FRONT#x"),
          backslash=target(b"/x\\..\\echo?FRONT"), nul=target(b"/echo\0?FRONT"), escaped_nul=target(b"/echo%00?FRONT"),
          escaped_backslash=target(b"/x%5c..%5cecho?FRONT"), hidden_dots=target(b"/x%2f..%2fecho?FRONT"),
          hidden_dots_first=target(b"/..%2fecho?FRONT"), dots_parameter=target(b"/x/..;/echo?FRONT"),
          dots_tab=target(b"/x/..%09/echo?FRONT"), dots_space=target(b"/x/..%20/echo?FRONT"),
          dots_crlf=target(b"/x/..%0d%0a/echo?FRONT"), dots_parted=target(b"/x/.%09./echo?FRONT"),
          dots_overlong=target(b"/x/%c0%ae%c0%ae/echo?FRONT"), slash_overlong=target(b"/x/..%c0%afecho?FRONT"),
          dots_twice=target(b"/x/%252e%252e/echo?FRONT"), dots_wide=target("/x/\uff0e\uff0e/echo?FRONT".encode()),
          slash_wide=target("/x/..\uff0fecho?FRONT".encode()),
          absolute_other=target(b"https://" + EVIL.encode() + b"/echo?FRONT"),
          absolute_scheme=target(b"http://" + HOST.encode() + b"/echo?FRONT"),
          absolute_port=target(b"https://" + HOST.encode() + b":8443/echo?FRONT"),
          absolute_user=target(b"https://" + EVIL.encode() + b"@" + HOST.encode() + b"/echo?FRONT"),
          absolute_ftp=target(b"ftp://" + HOST.encode() + b"/echo?FRONT"), absolute_ws=target(b"wss://" + HOST.encode() + b"/echo?FRONT"),
          connect=b"CONNECT " + EVIL.encode() + b":443 HTTP/1.1\r\nHost: " + EVIL.encode() + b":443\r\n\r\n" + HIDDEN,
          connect_itself=b"CONNECT " + HOST.encode() + b":443 HTTP/1.1\r\nHost: " + HOST.encode() + b":443\r\n\r\n" + HIDDEN,
          connect_path=target(b"/echo?FRONT", b"CONNECT")),

    # ---- hosts
    *many("refused",
          no_host=GET + CLOSE + b"\r\n", host_empty=host(b"Host:"), two_hosts=host(H + b"Host: " + EVIL.encode()),
          two_hosts_same=host(H + H.strip()), other_host=host(b"Host: " + EVIL.encode()),
          host_list=host(b"Host: " + HOST.encode() + b", " + EVIL.encode()), host_words=host(b"Host: " + HOST.encode() + b" " + EVIL.encode()),
          host_user=host(b"Host: " + EVIL.encode() + b"@" + HOST.encode()), host_path=host(b"Host: " + HOST.encode() + b"/x"),
          host_query=host(b"Host: " + HOST.encode() + b"?x"), host_scheme=host(b"Host: https://" + HOST.encode()),
          host_port=host(b"Host: " + HOST.encode() + b":8443"), host_port_0=host(b"Host: " + HOST.encode() + b":0"),
          host_port_empty=host(b"Host: " + HOST.encode() + b":"), host_port_long=host(b"Host: " + HOST.encode() + b":65979"),
          host_octal=host(b"Host: 0177.0.0.1"), host_decimal=host(b"Host: 2130706433"), host_hex=host(b"Host: 0x7f.1"),
          host_loopback=host(b"Host: 127.0.0.1"), host_v6=host(b"Host: [::1]"), host_high=host(b"Host: \xc3\xa4.example.test"),
          host_nul=host(b"Host: " + HOST.encode() + b"\0"), host_tab=host(b"Host: " + HOST.encode() + b"\t" + EVIL.encode()),
          host_folded=host(b"Host: " + HOST.encode() + b"\r\n " + EVIL.encode())),
]


# ---- HTTP/2, by hand: no library would write most of these --------------------------------------

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITIZED = 1, 4, 8, 32
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, data=b"", size=None):
    return struct.pack(">I", len(data) if size is None else size)[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + data


def string(text):
    """A string of HPACK's, without Huffman's code."""
    n = len(text)
    if n < 127:
        return bytes([n]) + text
    out, n = b"\x7f", n - 127
    while n >= 128:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n]) + text


def block(*fields):
    return b"".join(b"\0" + string(name) + string(value) for name, value in fields)


def b(text):
    return text if isinstance(text, bytes) else text.encode()


METHOD, SCHEME, PATH, AUTHORITY = b":method", b":scheme", b":path", b":authority"


def pseudo(method=b"GET", scheme=b"https", path=b"/echo?FRONT", authority=HOST):
    return [(name, b(value)) for name, value in
            ((METHOD, method), (SCHEME, scheme), (PATH, path), (AUTHORITY, authority)) if value is not None]


def ask(fields, end=True):
    return frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), 1, block(*fields))


def with_field(name, value):
    return ask(pseudo() + [(b(name), b(value))])


def with_body(data, fields=(), method=b"POST"):
    return ask(pseudo(method) + list(fields), False) + frame(DATA, END_STREAM, 1, data)


def with_trailers(*fields, flags=END_HEADERS | END_STREAM):
    return ask(pseudo(b"POST"), False) + frame(DATA, 0, 1, b"hello") + frame(HEADERS, flags, 1, block(*fields))


SMUGGLED = b" HTTP/1.1\r\n" + H + b"\r\nGET /echo?HIDDEN"
GOOD = ask(pseudo())

H2 = [
    # ---- controls
    *many("passed",
          get=GOOD, body=with_body(b"hello"), body_length=with_body(b"hello", [(b"content-length", b"5")]),
          trailers=with_trailers((b"x-sum", b"1")), te=with_field("te", "trailers"),
          split_head=frame(HEADERS, END_STREAM, 1, block(*pseudo()[:2])) +
          frame(CONTINUATION, END_HEADERS, 1, block(*pseudo()[2:])),
          split_in_string=frame(HEADERS, END_STREAM, 1, block(*pseudo())[:9]) +
          frame(CONTINUATION, 0, 1, block(*pseudo())[9:30]) + frame(CONTINUATION, END_HEADERS, 1, block(*pseudo())[30:]),
          padded=frame(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, b"\3" + block(*pseudo()) + b"\0\0\0"),
          priority=frame(HEADERS, END_HEADERS | END_STREAM | PRIORITIZED, 1, b"\0\0\0\0\x10" + block(*pseudo())),
          cookies=ask(pseudo() + [(b"cookie", b"a=b"), (b"cookie", b"c=d")]),
          host_same=with_field("host", HOST), authority_upper=ask(pseudo(authority=HOST.upper() + ".:443")),
          no_authority=ask(pseudo(authority=None) + [(b"host", b(HOST))]),
          dots=ask(pseudo(path=b"/x/../%65cho?FRONT")), path_high=ask(pseudo(path=b"/echo?FRONT%\xe4")),
          path_utf8=ask(pseudo(path="/ä/../echo?FRONT".encode())), body_like_a_request=with_body(HIDDEN),
          unknown_frame=frame(0x42, 0, 0, b"hello") + GOOD),

    # ---- who is asked
    *many("refused",
          host_other=with_field("host", EVIL), host_port=with_field("host", HOST + ":8443"),
          host_twice=ask(pseudo() + [(b"host", b(HOST)), (b"host", b(HOST))]),
          authority_other=ask(pseudo(authority=EVIL)), authority_user=ask(pseudo(authority=f"{EVIL}@{HOST}")),
          authority_path=ask(pseudo(authority=HOST + "/x")), authority_empty=ask(pseudo(authority="")),
          authority_port=ask(pseudo(authority=HOST + ":8443")), authority_list=ask(pseudo(authority=f"{HOST},{EVIL}")),
          authority_none=ask(pseudo(authority=None)), authority_crlf=ask(pseudo(authority=HOST + "\r\nx: y")),
          authority_smuggled=ask(pseudo(authority=b(HOST) + SMUGGLED)), authority_space=ask(pseudo(authority=HOST + " ")),
          authority_twice=ask(pseudo() + [(AUTHORITY, b(EVIL))]), authority_octal=ask(pseudo(authority="0177.0.0.1")),
          authority_nul=ask(pseudo(authority=HOST + "\0"))),

    # ---- what is asked
    *many("refused",
          path_none=ask(pseudo(path=None)), path_empty=ask(pseudo(path=b"")), path_no_slash=ask(pseudo(path=b"echo?FRONT")),
          path_star=ask(pseudo(path=b"*")), path_url=ask(pseudo(path=b"https://" + b(EVIL) + b"/echo?FRONT")),
          path_space=ask(pseudo(path=b"/echo?FRONT x")), path_crlf=ask(pseudo(path=b"/echo?FRONT\r\nx: y")),
          path_lf=ask(pseudo(path=b"/echo?FRONT\n")), path_nul=ask(pseudo(path=b"/echo?FRONT\0")),
          path_smuggled=ask(pseudo(path=b"/echo?FRONT" + SMUGGLED)), path_fragment=ask(pseudo(path=b"/echo?FRONT#x")),
          path_backslash=ask(pseudo(path=b"/x\\..\\echo?FRONT")), path_hidden_dots=ask(pseudo(path=b"/x%2f..%2fecho?FRONT")),
          path_dots_tab=ask(pseudo(path=b"/x/..%09/echo?FRONT")),
          path_dots_wide=ask(pseudo(path="/x/\uff0e\uff0e/echo?FRONT".encode())),
          path_dots_twice=ask(pseudo(path=b"/x/%252e%252e/echo?FRONT")), path_twice=ask(pseudo() + [(PATH, b"/echo?FRONT")]),
          method_none=ask(pseudo(None)), method_empty=ask(pseudo(b"")), method_lower=ask(pseudo(b"get")),
          method_space=ask(pseudo(b"GET /x")), method_smuggled=ask(pseudo(b"GET /echo?HIDDEN HTTP/1.1\r\n" + H + b"\r\nGET")),
          method_twice=ask(pseudo() + [(METHOD, b"GET")]), method_connect=ask(pseudo(b"CONNECT")),
          connect=ask(pseudo(b"CONNECT", None, None, EVIL + ":443")),
          scheme_none=ask(pseudo(scheme=None)), scheme_http=ask(pseudo(scheme=b"http")), scheme_ftp=ask(pseudo(scheme=b"ftp")),
          scheme_url=ask(pseudo(scheme=b"https://" + b(EVIL) + b"/?")), scheme_crlf=ask(pseudo(scheme=b"https\r\nx: y")),
          scheme_twice=ask(pseudo() + [(SCHEME, b"https")]), status=with_field(":status", "200"),
          pseudo_unknown=with_field(":x", "y"), pseudo_late=ask(pseudo()[:3] + [(b"x", b"y")] + pseudo()[3:]),
          pseudo_empty=with_field(":", "y"), nothing=frame(HEADERS, END_HEADERS | END_STREAM, 1)),

    # ---- fields
    *many("refused",
          name_upper=with_field("X", "y"), name_empty=with_field("", "y"), name_space=with_field("x y", "z"),
          name_colon=with_field("x:", "y"), name_crlf=with_field("x\r\ny", "z"), name_nul=with_field("x\0", "y"),
          name_high=with_field(b"x\xe4", "y"), name_quoted=with_field('"x"', "y"),
          name_smuggled=with_field(b"x: y\r\n\r\nGET /echo?HIDDEN HTTP/1.1\r\nx", "y"),
          value_crlf=with_field("x", "y\r\nz: 1"), value_lf=with_field("x", "y\nz: 1"), value_cr=with_field("x", "y\rz: 1"),
          value_nul=with_field("x", "y\0z"), value_smuggled=with_field("x", b"y\r\n\r\n" + HIDDEN),
          value_del=with_field("x", "y\x7f"),
          connection=with_field("connection", "close"), keep_alive=with_field("keep-alive", "5"),
          proxy_connection=with_field("proxy-connection", "close"), chunked=with_field("transfer-encoding", "chunked"),
          upgrade=with_field("upgrade", "websocket"), te_gzip=with_field("te", "gzip"), te_list=with_field("te", "trailers, gzip"),
          length_underscore=with_field("content_length", "5"), coding_underscore=with_field("transfer_encoding", "chunked"),
          types=ask(pseudo() + [(b"content-type", b"a/b"), (b"content-type", b"c/d")]),
          authorizations=ask(pseudo() + [(b"authorization", b"a"), (b"authorization", b"b")]),
          expect=with_field("expect", "x"),
          length_twice=with_body(b"hello", [(b"content-length", b"5"), (b"content-length", b"5")]),
          length_list=with_body(b"hello", [(b"content-length", b"5, 5")]), length_plus=with_body(b"hello", [(b"content-length", b"+5")]),
          length_hex=with_body(b"hello", [(b"content-length", b"0x5")]), length_empty=with_body(b"hello", [(b"content-length", b"")]),
          length_wraps=with_body(b"hello", [(b"content-length", b"18446744073709551621")])),
    # A blank around a value is an error (RFC 9113, 8.2.1), but one that has only one reading.
    *many("harmless", value_space=with_field("x", " y"), value_blank=with_field("x", "y\t")),
    *many("cut",
          length_too_small=with_body(b"hello" + HIDDEN, [(b"content-length", b"5")]),
          length_too_large=with_body(b"hello", [(b"content-length", b"50")]),
          length_without_body=with_field("content-length", "5"),
          length_0_with_body=with_body(HIDDEN, [(b"content-length", b"0")]),
          trailer_pseudo=with_trailers((PATH, b"/echo?HIDDEN")), trailer_length=with_trailers((b"content-length", b"93")),
          trailer_coding=with_trailers((b"transfer-encoding", b"chunked")),
          trailer_authorization=with_trailers((b"authorization", b"x")), trailer_crlf=with_trailers((b"x", b"y\r\n\r\n" + HIDDEN)),
          trailer_upper=with_trailers((b"X", b"y")), trailer_without_end=with_trailers((b"x", b"y"), flags=END_HEADERS)),

    # ---- frames: what is wrong comes first, so that nothing behind it may count
    *many("refused",
          data_on_0=frame(DATA, 0, 0, b"x") + GOOD, data_on_idle=frame(DATA, 0, 1, b"x") + GOOD,
          head_on_0=frame(HEADERS, END_HEADERS | END_STREAM, 0, block(*pseudo())),
          head_on_even=frame(HEADERS, END_HEADERS | END_STREAM, 2, block(*pseudo())),
          continuation_alone=frame(CONTINUATION, END_HEADERS, 1, block(*pseudo())),
          continuation_interrupted=frame(HEADERS, END_STREAM, 1, block(*pseudo())) + frame(PING, 0, 0, bytes(8)) +
          frame(CONTINUATION, END_HEADERS, 1),
          continuation_elsewhere=frame(HEADERS, END_STREAM, 1, block(*pseudo())) + frame(CONTINUATION, END_HEADERS, 3),
          head_too_large=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()), size=1 << 20),
          padding_too_long=frame(HEADERS, END_HEADERS | END_STREAM | PADDED, 1, b"\xff" + block(*pseudo())),
          settings_on_stream=frame(SETTINGS, 0, 1) + GOOD, settings_cut=frame(SETTINGS, 0, 0, b"\0\1\0") + GOOD,
          settings_ack_with_data=frame(SETTINGS, 1, 0, bytes(6)) + GOOD,
          settings_push=frame(SETTINGS, 0, 0, b"\0\2\0\0\0\2") + GOOD,
          settings_window=frame(SETTINGS, 0, 0, b"\0\4\xff\xff\xff\xff") + GOOD,
          settings_frame_size=frame(SETTINGS, 0, 0, b"\0\5\0\0\0\1") + GOOD,
          window_0=frame(WINDOW_UPDATE, 0, 0, bytes(4)) + GOOD, window_cut=frame(WINDOW_UPDATE, 0, 0, b"\0") + GOOD,
          window_overflow=frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff") + GOOD,
          ping_cut=frame(PING, 0, 0, b"x") + GOOD, ping_on_stream=frame(PING, 0, 1, bytes(8)) + GOOD,
          reset_on_0=frame(RST_STREAM, 0, 0, bytes(4)) + GOOD, reset_on_idle=frame(RST_STREAM, 0, 1, bytes(4)) + GOOD,
          reset_cut=frame(RST_STREAM, 0, 1, b"x") + GOOD, priority_on_0=frame(PRIORITY, 0, 0, bytes(5)) + GOOD,
          push=frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + block(*pseudo())),
          goaway_on_stream=frame(GOAWAY, 0, 1, bytes(8)) + GOOD,
          hpack_index_0=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\x80"),
          hpack_index_high=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\xff\x7f"),
          hpack_cut=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\0\1"),
          hpack_long_number=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\xff" + b"\xff" * 12),
          hpack_long_string=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\0\x7f\xff\xff\xff\xff\x07x"),
          hpack_table=frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x3f\xff\xff\x7f" + block(*pseudo())),
          hpack_late_table=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\x20"),
          hpack_huffman=frame(HEADERS, END_HEADERS | END_STREAM, 1, block(*pseudo()) + b"\0\1x\x82\xff\xff")),
    *many("harmless",
          trailer_host=with_trailers((b"host", b(EVIL))),       # left out
          data_behind_end=GOOD + frame(DATA, END_STREAM, 1, HIDDEN), head_behind_end=GOOD + GOOD,
          priority_on_itself=frame(PRIORITY, 0, 1, b"\0\0\0\1\0") + GOOD, goaway_first=frame(GOAWAY, 0, 0, bytes(8)) + GOOD,
          extended_connect=ask(pseudo(b"CONNECT") + [(b":protocol", b"websocket")])),
]
# Connections that are not HTTP/2 although they said they would be: all of what is sent.
H2_OTHERS = [
    *many("refused",
          http1=b"GET /echo?FRONT HTTP/1.1\r\n" + H + b"\r\n", preface_cut=PREFACE[:-1] + b"x" + frame(SETTINGS, 0, 0) + GOOD,
          preface_lf=PREFACE.replace(b"\r", b"") + frame(SETTINGS, 0, 0) + GOOD, no_settings=PREFACE + GOOD,
          preface_twice=PREFACE + PREFACE + frame(SETTINGS, 0, 0) + GOOD),
]
