#!/usr/bin/env python3
"""Checks a file that --trace wrote against the Trace Event Format: check_trace_file.py TRACE.json [CATEGORY ...]. Each
category named must occur. What it checks is what Perfetto and chrome://tracing rely on."""
import collections
import json
import sys

SCHEMA = {  # by phase: keys that must be there, and their types
    "X": {"ts": (int, float), "dur": (int, float), "cat": str, "args": dict},
    "i": {"ts": (int, float), "s": str, "cat": str, "args": dict},
    "C": {"ts": (int, float), "cat": str, "args": dict},
    "M": {"args": dict},
    "B": {"ts": (int, float)},
    "E": {"ts": (int, float)},
}


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def faults(trace):
    """What is wrong, as sentences."""
    last, depth, ends, named, used = 0, collections.Counter(), collections.defaultdict(list), set(), set()
    for number, event in enumerate(trace["traceEvents"]):
        where = f"event {number} ({event.get('name')})"
        phase = event.get("ph")
        if phase not in SCHEMA:
            yield f"{where}: unknown phase {phase!r}"
            continue
        for key, kind in {"name": str, "pid": int, "tid": int, **SCHEMA[phase]}.items():
            if not isinstance(event.get(key), kind) or isinstance(event.get(key), bool):
                yield f"{where}: {key} is {event.get(key)!r}"
        if phase == "M":
            if not isinstance(event["args"].get("name"), str):
                yield f"{where}: metadata without a name"
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
            continue
        thread = event["pid"], event["tid"]
        used.add(thread)
        if event["ts"] < last:
            yield f"{where}: time goes back from {last} to {event['ts']}"
        last = event["ts"]
        if phase == "X":
            if event["dur"] < 0:
                yield f"{where}: lasts {event['dur']}"
            start = nanoseconds(event["ts"])
            open_ends, end = ends[thread], start + nanoseconds(event["dur"])
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                yield f"{where}: ends behind the span around it"
            open_ends.append(end)
        elif phase == "i" and event["s"] not in "gpt":
            yield f"{where}: scope {event['s']!r}"
        elif phase == "C" and not all(isinstance(v, (int, float)) for v in event["args"].values()):
            yield f"{where}: a counter that is no number"
        elif phase in "BE":
            depth[thread] += 1 if phase == "B" else -1
            if depth[thread] < 0:
                yield f"{where}: an end without a beginning"
    for thread, count in depth.items():
        if count:
            yield f"thread {thread}: {count} spans never end"
    for thread in used - named:
        yield f"thread {thread} has no name"
    if not used:
        yield "no events"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        trace = json.load(file)
    found = list(faults(trace))
    categories = collections.Counter(event.get("cat") for event in trace["traceEvents"])
    found += [f"no event of category {wanted}" for wanted in sys.argv[2:] if not categories[wanted]]
    print("\n".join(found[:20]) if found else
          f"{sys.argv[1]}: {sum(categories.values())} events, " +
          ", ".join(f"{name} {count}" for name, count in sorted(categories.items(), key=str) if name))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
