"""The links of a home broker to the other members, and requests over them.

The lowest room but the record.  The contents of requests are not known here.
"""
