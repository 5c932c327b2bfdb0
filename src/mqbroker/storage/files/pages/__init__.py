"""Files of pages: writing, reading, compressing, scanning and recovering them.  Pages come in above the journal, which is their one commit
point; the store does not come in.
"""
