"""Payments of ../data/payments.ndjson that were not settled within ten minutes, and settlements that no
authorisation within ten minutes before them belongs to, sorted: python3 deadline.py"""
import json

TEN_MINUTES = 600_000
events = {"authorised": {}, "settled": {}}
for line in open("../data/payments.ndjson", encoding="utf-8"):
    e = json.loads(line)
    events[e["kind"]][e["payment"]] = e

alerts, unmatched = [], []
for payment in sorted(set(events["authorised"]) | set(events["settled"])):
    a, s = events["authorised"].get(payment), events["settled"].get(payment)
    if a and s and 0 <= s["at"] - a["at"] <= TEN_MINUTES:
        continue
    if a:
        alerts.append(f'{{"payment":"{payment}","amount":{a["amount"]},"authorised":{a["at"]},"deadline":{a["at"] + TEN_MINUTES}}}\n')
    if s:
        unmatched.append(f'{{"payment":"{payment}","settled":{s["at"]}}}\n')
open("alerts.ndjson", "w").writelines(sorted(alerts))
open("unmatched.ndjson", "w").writelines(sorted(unmatched))
