"""What is said to models and what they say, in one form for all of them."""
