"""The store on files: batches, bindings, large bodies, restoring, recovering."""
