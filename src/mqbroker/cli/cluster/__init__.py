"""Commands that show a cluster.  Members are asked by management alone; no other part of the broker comes in."""
