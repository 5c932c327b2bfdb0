"""Commands on stored data: print, export, import, recover, and the activation sequence of a replicated node.

The folder or database of a stopped broker is read here; a running broker comes in only as the one that ``data imp`` sends to.
"""
