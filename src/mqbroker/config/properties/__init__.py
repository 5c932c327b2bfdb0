"""Values from outside of broker.xml: broker properties, overrides, substitution."""
