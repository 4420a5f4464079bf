"""How far one store and one service go: a simulation with measured costs.

Every part is a queue with one server for each of its processors.  Dispatches arrive at random, go through the parts in order, and
stay in a cell for LASTS seconds meanwhile.  The rate at which CELLS of them run at the same time is CELLS / LASTS."""
import heapq
import random

CELLS, SLOTS, CORES = 10_000, 50, 8
LASTS = (600, 120, 30)          # seconds that a cell lives
RENEWED = 6                     # seconds: how often a cell's claim is renewed
BUSY = 0.8                      # of its processors: a part beyond this makes others wait


def load(rate, workers, costs, idle):
    """By part, the share of its processors that is used.  Each worker also costs it IDLE, whatever dispatches come."""
    return {name: (rate * costs[name] + workers * idle[name]) / CORES for name in costs}


def simulate(rate, cost, seconds=60, seed=1):
    """The mean wait, in ms, of requests that arrive at RATE and take COST seconds of one of CORES servers."""
    chance, now, waits, n = random.Random(seed), 0.0, 0.0, 0
    free = [0.0] * CORES
    while now < seconds and n < 200_000:
        now += chance.expovariate(rate)
        begins = max(now, heapq.heappop(free))
        heapq.heappush(free, begins + cost)
        waits += begins - now
        n += 1
    return waits / max(n, 1) * 1000


def rows(postgres, service, worker, service_idle, postgres_idle, renewal):
    """(name, value, unit), of costs in seconds of a processor for each dispatch and each renewal of a claim, and in shares of one
    for each idle worker."""
    costs = {"Postgres": postgres, "service": service}
    idle = {"Postgres": postgres_idle + SLOTS / RENEWED * renewal, "service": service_idle}
    workers = CELLS // SLOTS
    yield "one dispatch, Postgres", postgres * 1000, "ms CPU"
    yield "one dispatch, service", service * 1000, "ms CPU"
    yield "one dispatch, worker", worker * 1000, "ms CPU"
    yield "one renewal of a claim, Postgres", renewal * 1000, "ms"
    for lasts in LASTS:
        rate = CELLS / lasts
        shares = load(rate, workers, costs, idle)
        first = max(shares, key=shares.get)
        yield f"{CELLS} cells of {lasts} s: {first} is busy", shares[first] * 100, "%"
        yield f"{CELLS} cells of {lasts} s: one waits for it", simulate(rate, costs[first]), "ms"
    most = {name: (BUSY * CORES - workers * idle[name]) / costs[name] for name in costs}
    first = min(most, key=most.get)
    yield f"{first} saturates first, at", most[first], "/s"
