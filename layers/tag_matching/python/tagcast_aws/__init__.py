"""The service on AWS: adapters of the core's ports, and the HTTP API in front of its use cases.

From the inside out; each package knows only those above it in this list:

- `runtime`: the process: clock, dice, threads, log and metrics, settings of the deployment;
- `store`: the tables, their streams, and the stored indexes;
- `dispatch`: other services: the queue, the workflow, the archive;
- `endpoints`: subscribers' endpoints and filter functions, and which of them may be reached;
- `api`: the HTTP API, one module or folder per resource;
- `wiring`: the composition, once per process.
"""
