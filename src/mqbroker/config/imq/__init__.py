"""The properties of an instance of Open Message Queue: where each value comes from, and the configuration that all of them make."""
