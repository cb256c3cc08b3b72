"""The catalogue: one TOML file a signature, a folder an area, and the loader that checks them."""
