"""What is handed on to other services: entries of the queue, executions of the workflow, records of the archive."""
