"""Lock managers: services outside of the cluster that say who may be active (Artemis manual, chapter on high availability)."""
