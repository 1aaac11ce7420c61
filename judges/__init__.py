"""What others' tests say of our adapters: their conformance kits, and their own suites with our class swapped in."""
