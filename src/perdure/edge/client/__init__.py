"""The remote library: what `perdure.open` gives, over HTTP, from a server."""
