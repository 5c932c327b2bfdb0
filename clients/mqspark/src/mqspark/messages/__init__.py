"""Messages as rows: headers, blocks, JSON bodies, variants, schemas."""
