"""HTTP parts that all resources share: events, validated requests, bodies, problem details, the API document."""
