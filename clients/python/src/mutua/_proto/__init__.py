"""The messages of `mutua.v1`, as `generate` makes them."""
