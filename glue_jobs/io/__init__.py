"""Input and output of the jobs: arguments, the session, the archive's records, tables and pages."""
