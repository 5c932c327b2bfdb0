"""Reading broker.xml: its tree, sections and values."""
