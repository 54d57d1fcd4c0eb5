"""AWS's rules: its limits and prices, and how its policies decide."""
