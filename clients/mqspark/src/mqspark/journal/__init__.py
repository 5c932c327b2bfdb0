"""Reading the data folder of a broker as tables.  Files alone are read: connections do not come in."""
