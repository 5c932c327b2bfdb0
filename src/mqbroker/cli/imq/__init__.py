"""Commands with the words of Open Message Queue: ``imqbrokerd``, which starts an instance, ``imqcmd`` and ``imqdbmgr``.

Words, columns and exit statuses of these programs stand here; their meaning to a broker stands in :mod:`mqbroker.imq.administration`.
"""
