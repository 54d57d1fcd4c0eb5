"""The command line `tagcast`; and what the local stack and the console share with it."""

OTHERS = 0o077
"""The rights that other users of this machine do not get to what is written here, as a umask."""
JOB_PROGRESS = "progress: "
"""How a line of a Spark job begins that says, on standard error, what the job is doing."""
JOB_LINES_KEPT = 30
"""What a job that broke is quoted with."""
SPARK_STARTS = "starting Spark"
"""The first stage of a job whose Spark is not there yet, wherever it runs."""
