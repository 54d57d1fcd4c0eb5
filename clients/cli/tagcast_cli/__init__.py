"""The command line `tagcast`, with constants that the local stack and the console share."""

OTHERS = 0o077
"""The umask of written files: other users of this machine get no rights."""
JOB_PROGRESS = "progress: "
"""The prefix of a Spark job's progress lines on standard error."""
JOB_LINES_KEPT = 30
"""How many last lines of a failed job are quoted."""
JOB_REFUSED = 2
"""The exit code of a job that refuses its arguments or its archive; its last line on standard error says why."""
SPARK_STARTS = "starting Spark"
"""The first stage of a job that has to start Spark, locally or on AWS."""
