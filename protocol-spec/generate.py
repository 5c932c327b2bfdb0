#!/usr/bin/env python3
"""Writes the tables of the chapters beside this program anew, from the description of the wire in ``mqclient.wire.packets.grammar``.

generate.py            rewrites the chapters whose tables are stale, and names them
generate.py --check    only names them; exit status 1 if there are any
"""

import pathlib
import sys

from tables import refresh


def main(arguments: list[str]) -> int:
    stale = []
    for chapter in sorted(pathlib.Path(__file__).resolve().parent.glob("*.md")):
        text = chapter.read_text("utf-8")
        fresh = refresh(text)
        if fresh != text:
            stale.append(chapter.name)
            if "--check" not in arguments:
                chapter.write_text(fresh, "utf-8")
    for name in stale:
        print(name)
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
