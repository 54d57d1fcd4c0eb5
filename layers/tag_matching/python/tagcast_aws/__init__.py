"""The service on AWS: the adapters of the core's ports, and the HTTP API in front of its use cases.

From the inside out; a room knows only those above it in this list:

- `runtime`: what a process has of itself: clock, dice, threads, log and metrics, settings of the deployment;
- `store`: the tables, their streams, and the indexes that are kept beside them;
- `dispatch`: what is handed on to other services: the queue, the workflow, the archive;
- `endpoints`: the ways to subscribers' endpoints and filter functions, and which of them may be reached;
- `api`: the HTTP API, one room per resource;
- `wiring`: all of it put together, once per process.
"""
