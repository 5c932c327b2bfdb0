"""``python -m mqbroker.cli``: the same as the ``mqbroker`` command; the start script of an instance folder calls it."""

from mqbroker.cli import main

main()
