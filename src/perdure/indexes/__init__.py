"""What memories are searched with."""
