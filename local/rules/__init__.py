"""AWS's rules: its limits, and the decisions of policies."""
