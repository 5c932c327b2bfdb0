"""The links of a home broker to the other members, and requests over them."""
