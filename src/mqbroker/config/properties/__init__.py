"""Properties from outside of broker.xml: their files, their entries, substitution.  broker.xml itself does not come in."""
