"""What jobs read and write: arguments, the session, the archive's records, tables and pages."""
