"""Pages of addresses: writing, reading, compressing, scanning and recovering them."""
