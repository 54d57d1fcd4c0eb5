"""The service on AWS: adapters of the core's ports, and the HTTP API in front of the core's use cases.

The packages, from the inside out. Each package imports only the packages above it in this list:

- `runtime`: the process: clock, randomness, threads, log and metrics, settings of the deployment;
- `store`: the tables and their streams, files on S3, keys and secrets;
- `dispatch`: other services: the queues, the workflow, the archive, the event bus;
- `endpoints`: subscribers' endpoints and filter functions, and which of them may be reached;
- `api`: the HTTP API, one module or folder per resource;
- `cmq`: the endpoint with the API of Tencent CMQ;
- `wiring`: creates all of these objects, once per process.
"""
