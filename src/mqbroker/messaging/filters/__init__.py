"""The filter language: lexer, parser, compiler, values, XPath.  A filter looks at one message; it knows no queue."""
