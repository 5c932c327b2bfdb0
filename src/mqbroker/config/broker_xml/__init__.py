"""Reading broker.xml, in steps that each take the outcome of the one before.

:mod:`.tree` makes nodes of the file; :mod:`.reader` makes a tree of contents of them, by the table in ``schema``; :mod:`.older_forms` puts
older forms into the present one.  Then the room ``overrides`` changes the contents, and :mod:`.sections` and :mod:`.cluster_assembly` turn
them into a configuration and check it.  Other files of an instance do not come in.
"""
