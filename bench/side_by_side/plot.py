#!/usr/bin/env python3
"""Draw what compare.py measured: one bar for each row, as a share of ONNX Runtime's figure.

    compare.py --transmuter BINARY --threads 2 --json out.json
    plot.py out.json [more.json ...] -o speed.svg

One panel for each of time (the median), peak memory and time to load. The line at 1 is ONNX Runtime at the better of
its optimisation levels; a shorter bar is a faster or smaller transmuter. The thin line through a bar of the first
panel spans the ratios of the single rounds. Several reports: a later row replaces an earlier one of the same case.
"""

import argparse
import json
import sys
from html import escape

PANELS = (("median", "time"), ("memory", "peak memory"), ("load", "time to load"))
BETTER, WORSE = "#0072b2", "#d55e00"  # told apart by every kind of colour vision
LABELS, PANEL, GAP, ROW, BAR, TOP = 290, 170, 34, 22, 13, 52
STYLE = """
text { font: 12px sans-serif; fill: #333 } .title { font-weight: bold } .small { font-size: 10.5px }
.line { stroke: #333 } .grid { stroke: #ccc } .spread { stroke: #333; stroke-width: 1.2 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .line, .spread { stroke: #ddd } .grid { stroke: #555 }
}
"""


def read_rows(paths):
    rows, settings, hosts = {}, [], set()
    for path in paths:
        with open(path) as f:
            report = json.load(f)
        settings.append(report["settings"])
        hosts.add(report["host"].get("processor") or "unknown processor")
        for row in report["rows"]:
            if "ratios" in row:
                rows[(row["model"], row["dims"], row["phase"])] = row
    if not rows:
        sys.exit("no row with ratios in " + ", ".join(paths))
    if len({s["threads"] for s in settings}) > 1:
        sys.exit("the reports were measured with different numbers of threads")
    return list(rows.values()), settings[-1]["threads"], sorted(hosts)


def label_of(row):
    phase = "" if row["phase"] == "latency" else " " + row["phase"]
    return f"{row['model']}{phase}", row["dims"]


class Panel:
    """One measure of all rows, drawn from `left`; ratios beyond `limit` are cut and written out."""

    def __init__(self, key, title, left, rows):
        self.key, self.title, self.left = key, title, left
        known = [row["ratios"][key] for row in rows if row["ratios"].get(key)]
        self.limit = min(2.0, max(1.25, max(known, default=1.0) * 1.05))

    def x(self, ratio):
        return self.left + PANEL * min(ratio, self.limit) / self.limit

    def axis(self, bottom):
        out = [f'<text class="title" x="{self.left}" y="{TOP - 26}">{self.title}</text>']
        for tick in (0, 0.5, 1, 1.5, 2):
            if tick > self.limit:
                continue
            kind = "line" if tick == 1 else "grid"
            x = self.x(tick)
            out.append(f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}"/>')
            out.append(f'<text class="small" x="{x:.1f}" y="{TOP - 10}" text-anchor="middle">{tick:g}</text>')
        return out

    def bar(self, row, y):
        ratio = row["ratios"].get(self.key)
        if not ratio:
            return []
        width = self.x(ratio) - self.left
        colour = BETTER if ratio <= 1 else WORSE
        out = [f'<rect x="{self.left}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>']
        end = self.x(ratio)
        if self.key == "median":
            low, high = self.x(row["ratios"]["round_low"]), self.x(row["ratios"]["round_high"])
            middle = y + BAR / 2
            out.append(f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>')
            end = max(end, high)
        out.append(f'<text class="small" x="{end + 4:.1f}" y="{y + BAR - 2}">{ratio:.2f}</text>')
        return out


def draw(rows, threads, hosts):
    panels = [Panel(key, title, LABELS + i * (PANEL + GAP), rows) for i, (key, title) in enumerate(PANELS)]
    width = LABELS + len(panels) * (PANEL + GAP)
    bottom = TOP + ROW * len(rows)
    height = bottom + 24
    about = f"share of ONNX Runtime's figure; {threads} threads, {', '.join(hosts)}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<title>transmuter beside ONNX Runtime: {escape(about)}</title>",
        f"<style>{STYLE}</style>",
    ]
    for panel in panels:
        out += panel.axis(bottom)
    for i, row in enumerate(rows):
        y = TOP + ROW * i + (ROW - BAR) // 2
        name, dims = label_of(row)
        out.append(
            f'<text x="{LABELS - 8}" y="{y + BAR - 2}" text-anchor="end">{escape(name)} '
            f'<tspan class="small">{escape(dims)}</tspan></text>'
        )
        for panel in panels:
            out += panel.bar(row, y)
    out.append(f'<text class="small" x="8" y="{height - 8}">{escape(about)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", metavar="REPORT")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.svg")
    args = parser.parse_args()
    drawn = draw(*read_rows(args.reports))
    with open(args.output, "w") as f:
        f.write(drawn)


if __name__ == "__main__":
    main()
