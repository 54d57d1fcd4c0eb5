"""Pull groups: what members ask for, and what they say of what they got."""
