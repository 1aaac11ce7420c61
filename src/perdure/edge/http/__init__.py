"""The HTTP edge: perdure behind one address. It translates, asks one service, and translates back."""
