"""The local stack and its console. They are for development: no deployment and no package contains them."""
