"""Consumer groups: pulls, acknowledgements, nacks and extensions."""
