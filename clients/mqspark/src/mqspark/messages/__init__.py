"""Messages as rows: headers, blocks, JSON bodies, variants, schemas.  Bytes and Arrow come in, brokers and files do not."""
