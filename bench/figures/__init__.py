"""What is measured, one module per kind of work; each has one function per repetition."""
