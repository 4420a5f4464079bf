"""The catalogue of smuggling and desynchronisation, on both protocols (desync_cases.py).

All of a catalogue goes through one cell; each case is judged by what the servers saw.
"""
import itertools
import json

import pytest

import desync_cases as cases
from egress_lab import CURL

OPEN = "  - allow: '*.example.test'\n"
numbers = itertools.count(1)

# Sends each case on a connection of its own and says how each was answered: a status,
# "reset", "ended", or "nothing" when there was none in time.
SENDER = r"""
import concurrent.futures, json, socket, ssl, struct, sys
given = json.load(sys.stdin)

def connect(protocol):
    context = ssl.create_default_context()
    context.set_alpn_protocols([protocol])
    plain = socket.create_connection((given['host'], 443), 10)
    s = context.wrap_socket(plain, server_hostname=given['host'])
    s.settimeout(10)
    return s

def send(s, data):
    # Some of it may be refused before all of it is sent.
    try:
        s.sendall(data)
    except OSError:
        pass

def h1(data):
    with connect('http/1.1') as s:
        send(s, data)
        out = b''
        try:
            while more := s.recv(65536):
                out += more
        except TimeoutError:
            if not out:
                return ['nothing']
        except OSError:
            pass
        # Between answers there is nothing that looks like a status line.
        said = [part[:3].decode('latin-1') for part in out.split(b'HTTP/1.1 ')[1:]]
        return [status for status in said if not status.startswith('1')] or ['ended']

DIGITS = {**{format(i, '05b'): str(i) for i in range(3)},
          **{format(22 + i, '06b'): str(i) for i in range(3, 10)}}

def status_of(block):
    while block[0] >> 5 == 1:
        block = block[1:]
    if block[0] & 128:
        return {8: '200', 9: '204', 10: '206', 11: '304', 12: '400', 13: '404', 14: '500'}[block[0] & 127]
    length, text = block[1] & 127, block[2:]
    if not block[1] & 128:
        return text[:length].decode()
    bits, out = ''.join(format(c, '08b') for c in text[:length]), ''
    while len(out) < 3:
        n = 5 if bits[:5] in DIGITS else 6
        out, bits = out + DIGITS[bits[:n]], bits[n:]
    return out

def h2_answer(s):
    buf, said = b'', []
    while True:
        while len(buf) < 9 or len(buf) < 9 + int.from_bytes(buf[:3], 'big'):
            try:
                more = s.recv(65536)
            except TimeoutError:
                return said or ['nothing']
            except OSError:
                more = b''
            if not more:
                return said or ['ended']
            buf += more
        size, kind, flags = int.from_bytes(buf[:3], 'big'), buf[3], buf[4]
        stream, body, buf = struct.unpack('>I', buf[5:9])[0], buf[9:9 + size], buf[9 + size:]
        if kind == 1 and not said:
            status = status_of(body)
            if status[0] != '1':
                said.append(status)
        if kind == 3:
            return said or ['reset']
        if kind == 7 and struct.unpack('>I', body[4:8])[0] != 0:
            return said or ['ended']
        if stream != 0 and kind in (0, 1) and flags & 1:
            return said

def h2(data):
    with connect('h2') as s:
        send(s, data)
        return h2_answer(s)

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    told = pool.map(h2 if given['protocol'] == 'h2' else h1, map(bytes.fromhex, given['data']))
    json.dump(list(told), sys.stdout)
"""


def wrong(case, said, front, hidden, hosts):
    """The fault of the exchange, or None."""
    refused = all(s in ("reset", "ended") or s[0] in "45" for s in said)
    if hidden:
        return "the hidden request arrived"
    if any(host != cases.HOST for host in hosts):
        return "it arrived at another host"
    if case.want == "refused" and (front or not refused):
        return "it was not refused"
    if case.want == "cut" and (front > 1 or not refused):
        return "it was not cut off"
    # What is answered is not always found: 404 will do.
    if case.want == "passed" and (front != 1 or said not in (["200"], ["404"])):
        return "it did not pass"
    if len(said) > 1:
        return "there were several answers"
    return None


def judge(online, protocol, catalogue, prepare):
    online.start(OPEN, "sleep", "1000")
    # As long as the words that they stand for, so that no length in a case changes.
    marks = [(f"Q{n:04}", f"Z{n:05}") for n in itertools.islice(numbers, len(catalogue))]
    data = [prepare(case.data, *mark) for case, mark in zip(catalogue, marks)]
    given = {"host": cases.HOST, "protocol": protocol, "data": [d.hex() for d in data]}
    done = online.inside("/usr/bin/python3", "-c", SENDER, input=json.dumps(given), seconds=180)
    seen = [json.loads(line) for line in online.lab.lines("seen.jsonl")]
    faults = []
    for case, said, (front, hidden) in zip(catalogue, json.loads(done.ok()), marks):
        fronts = [s for s in seen if front in s["target"]]
        fault = wrong(case, said, len(fronts), [s for s in seen if hidden in json.dumps(s)],
                      {s["host"] for s in fronts})
        if fault is not None:
            faults.append(f"{case.name}: {fault}; wanted {case.want}, said {said}, seen {fronts}")
    assert not faults, "\n".join(faults)
    still = online.inside(*CURL, f"https://{cases.HOST}/echo").ok()
    assert json.loads(still)["method"] == "GET", "it no longer serves"


def filled(data, front, hidden):
    return data.replace(b"FRONT", front.encode()).replace(b"HIDDEN", hidden.encode())


def test_http1(online):
    judge(online, "h1", cases.H1, filled)


@pytest.mark.parametrize("part", range(2))
def test_http2(online, part):
    def prepare(data, front, hidden):
        whole = data if part else cases.PREFACE + cases.frame(cases.SETTINGS, 0, 0) + data
        return filled(whole, front, hidden)

    judge(online, "h2", cases.H2_OTHERS if part else cases.H2, prepare)
