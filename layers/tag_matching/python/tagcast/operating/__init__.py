"""What people ask and order: `messages`, `explaining`, `lanes`."""
