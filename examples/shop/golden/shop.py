"""Visits of ../data/clicks.ndjson, sorted, and the events that come too late for theirs: python3 shop.py

It reads the events in the order of the file, as a stream: what is late depends on that order.
"""
import json

GAP, DELAY = 30 * 60_000, 2 * 60_000
open_visits = {}  # by visitor, lists of [start, end, events]
visits, late = [], []
latest = None


def close(until):
    for visitor, mine in open_visits.items():
        for v in [v for v in mine if v[1] - 1 <= until]:
            mine.remove(v)
            visits.append((visitor, v))


for line in open("../data/clicks.ndjson", encoding="utf-8"):
    e = json.loads(line)
    watermark = -1 if latest is None else latest - DELAY - 1
    start, end = e["at"], e["at"] + GAP
    mine = open_visits.setdefault(e["visitor"], [])
    same = [v for v in mine if v[0] <= end and start <= v[1]]
    if not same and end - 1 <= watermark:
        whole = {name: e.get(name) for name in ("visitor", "at", "event", "price", "order")}
        late.append(json.dumps(whole, separators=(",", ":")) + "\n")
        continue
    merged = [min([start] + [v[0] for v in same]), max([end] + [v[1] for v in same]), [e] + [x for v in same for x in v[2]]]
    open_visits[e["visitor"]] = [v for v in mine if v not in same] + [merged]
    # The watermark moves with the greatest time, at the first event of a tenth of a second of it.
    if latest is None or e["at"] // 100 > latest // 100:
        latest = e["at"]
        close(latest - DELAY - 1)
close(float("inf"))

out = []
for visitor, (start, end, events) in visits:
    basket = [e["price"] for e in events if "price" in e]
    orders = [e["order"] for e in events if "order" in e]
    total = sum(basket) if basket else "null"
    out.append(f'{{"visitor":"{visitor}","window_start":{start},"window_end":{end},"events":{len(events)},'
               f'"basket":{total},"orders":{len(orders)}}}\n')
open("visits.ndjson", "w").writelines(sorted(out))
open("late.ndjson", "w").writelines(sorted(late))
