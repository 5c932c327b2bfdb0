"""Reading broker.xml: its tree, sections and names of beans.  Other files of an instance do not come in."""
