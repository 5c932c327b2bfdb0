"""The journal of the file store: batches, segments and their live records, compaction, maintenance.

Records about pages are kept here, too.  Files of pages, and who writes them, do not come in: the journal asks a ``GroupPager``.
"""
