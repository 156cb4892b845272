"""Words of ../data/lines.ndjson per window of five seconds that begins each second, sorted: python3 words.py"""
import collections
import json
import re

counts = collections.Counter()
for line in open("../data/lines.ndjson", encoding="utf-8"):
    record = json.loads(line)
    for word in re.findall(r"[0-9a-z]+", record["line"].lower()):
        second = record["at"] // 1000
        for start in range(second - 4, second + 1):
            counts[word, start * 1000] += 1
out = [f'{{"word":"{w}","window_start":{s},"window_end":{s + 5000},"n":{n}}}\n' for (w, s), n in counts.items()]
open("windows.ndjson", "w").writelines(sorted(out))
