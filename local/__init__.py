"""The local stack and its console; never deployed, and in no package."""
