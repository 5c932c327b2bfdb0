"""The links of a home broker to the other members, and requests over them.

The lowest room but the record.  What a request asks for is not known here.
"""
