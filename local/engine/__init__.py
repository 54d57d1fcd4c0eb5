"""The engine that plays AWS here, and the guards in front of it: identities, permissions, limits."""
