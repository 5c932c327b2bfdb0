"""Network check: a broker that reaches none of the configured places stops until one answers (Artemis manual, "Network Isolation")."""
