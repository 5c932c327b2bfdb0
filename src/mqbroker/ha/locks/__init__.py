"""Lock managers: services outside of the cluster that say who may be active (Artemis manual, chapter on high availability).

The contract, its tests, and the manager on files stand here.  Links and members of a cluster do not come in.
"""
