"""What turns texts into vectors: from installed packages without a network, or by an endpoint elsewhere."""
