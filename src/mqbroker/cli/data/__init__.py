"""Commands on the data folder: print, export, import, recover."""
