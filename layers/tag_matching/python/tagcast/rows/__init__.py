"""Everything that is stored: `keys`, and one codec for each kind of row; nobody else knows an attribute's name."""
