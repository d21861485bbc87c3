#!/usr/bin/env python3
"""Draws the timeline of one deletion behind an NLB, without and with Headgate: deletion.svg and deletion-dark.svg.

Usage: docs/pictures/deletion.py [--check]. With --check it writes nothing and fails if a picture is not current.
"""

import sys
from pathlib import Path

LIGHT = {"back": "#ffffff", "text": "#1f2328", "faint": "#59636e", "line": "#d1d9e0",
         "send": "#0969da", "serve": "#1a7f37", "lost": "#cf222e"}
DARK = {"back": "#0d1117", "text": "#f0f6fc", "faint": "#9198a1", "line": "#3d444d",
        "send": "#4493f8", "serve": "#3fb950", "lost": "#f85149"}

WIDTH, HEIGHT = 880, 356
LEFT, RIGHT = 190, 850
LAST = 165  # seconds
DELAY, HOLD = 120, 150  # seconds: propagation delay of an NLB, hold of `auto`


def at(second):
    """The x coordinate of a second."""
    return LEFT + (RIGHT - LEFT) * second / LAST


def text(x, y, words, color, size=13, anchor="start", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y}" fill="{color}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{words}</text>')


def bar(start, end, y, color, words, c):
    rect = f'<rect x="{at(start):.0f}" y="{y}" width="{at(end) - at(start):.0f}" height="24" rx="4" fill="{c[color]}"/>'
    return [rect, text((at(start) + at(end)) / 2, y + 17, words, c["back"], 12, "middle", "bold")]


def row(y, label, c):
    return [text(LEFT - 12, y + 17, label, c["text"], 13, "end")]


def moment(second, top, bottom, color):
    x = f"{at(second):.0f}"
    return f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="{color}" stroke-dasharray="3 3"/>'


def picture(c):
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
             'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" role="img">',
             "<title>One deletion behind an NLB, without and with Headgate</title>",
             "<desc>Without a hold the pod stops at once, and the load balancer keeps sending to it for up to 120 seconds. "
             "With Headgate the pod serves for 150 seconds after the deregistration.</desc>",
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{c["back"]}"/>']

    parts.append(text(20, 32, "Without a hold", c["text"], 15, weight="bold"))
    parts.append(moment(2, 44, 132, c["faint"]))
    parts.append(text(at(0), 44, "0 s: DELETE, SIGTERM, DeregisterTargets", c["faint"], 12))
    parts += row(54, "NLB sends for", c) + bar(0, DELAY, 54, "send", "up to 120 s", c)
    parts += row(86, "pod", c) + bar(0, 2, 86, "serve", "", c)
    parts += bar(2, DELAY, 86, "lost", "stopped: new connections fail", c)

    parts.append(f'<line x1="20" y1="150" x2="{RIGHT}" y2="150" stroke="{c["line"]}"/>')
    parts.append(text(20, 182, "With Headgate", c["text"], 15, weight="bold"))
    parts.append(text(at(0), 194, "0 s: DELETE, DeregisterTargets", c["faint"], 12))
    parts.append(text(at(HOLD), 194, "150 s: SIGTERM", c["faint"], 12, "middle"))
    parts += row(204, "NLB sends for", c) + bar(0, DELAY, 204, "send", "up to 120 s", c)
    words = "the hold: the pod keeps serving, every connection is answered"
    parts += row(236, "pod", c) + bar(0, HOLD, 236, "serve", words, c)
    parts.append(moment(HOLD, 200, 270, c["faint"]))

    parts.append(f'<line x1="{LEFT}" y1="282" x2="{RIGHT}" y2="282" stroke="{c["faint"]}"/>')
    for second in range(0, LAST, 30):
        parts.append(f'<line x1="{at(second):.0f}" y1="282" x2="{at(second):.0f}" y2="287" stroke="{c["faint"]}"/>')
        parts.append(text(at(second), 302, f"{second} s", c["faint"], 12, "middle"))
    parts.append(text(20, 336, "120 s is what others have measured (sources in the README). An ALB needs about 20 s, and its hold is 45 s.",
                      c["faint"], 12))
    return "\n".join(parts) + "\n</svg>\n"


def main():
    here = Path(__file__).parent
    stale = []
    for name, colors in (("deletion.svg", LIGHT), ("deletion-dark.svg", DARK)):
        path, drawn = here / name, picture(colors)
        if "--check" not in sys.argv:
            path.write_text(drawn)
        elif not path.exists() or path.read_text() != drawn:
            stale.append(name)
    if stale:
        sys.exit(f"{', '.join(stale)}: not current; run docs/pictures/deletion.py")


main()
