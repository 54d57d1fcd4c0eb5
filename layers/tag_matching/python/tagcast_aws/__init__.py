"""The service on AWS: adapters of the core's ports, and the HTTP API in front of its use cases.

The packages, from the inside out. Each package knows only the packages above it in this list:

- `runtime`: the process: clock, dice, threads, log and metrics, settings of the deployment;
- `store`: the tables, their streams, and the stored indexes;
- `dispatch`: other services: the queue, the workflow, the archive;
- `endpoints`: subscribers' endpoints and filter functions, and which of them may be reached;
- `api`: the HTTP API, one module or folder per resource;
- `cmq`: the endpoint with the API of Tencent CMQ;
- `wiring`: the composition, once per process.
"""
