"""What all resources share: events in, checked requests, strict JSON, bodies, problems out, the API's description."""
