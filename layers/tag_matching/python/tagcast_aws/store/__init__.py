"""The tables: typed rows in, conditional and transactional writes out, their streams, and stored objects."""
