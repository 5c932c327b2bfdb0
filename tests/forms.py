"""Tests of one form of the broker only (``tests/compiled.py``)."""

from __future__ import annotations

import unittest

from mqbroker.process.forms import running_form

pure_only = unittest.skipIf(running_form() != "pure", "replaces or counts what only the interpreter looks up")
"""For tests that watch the source at work.  Calls between compiled functions cannot be seen from outside."""
