"""What the Makefile runs besides the product: nothing here is installed or imported by it."""
